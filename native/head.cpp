#include "head.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cut.h"
#include "error.h"

namespace gc {

namespace {

constexpr int32_t kWord = 64;  // bits

Clusters checked(const GgufFile &drafter, Clusters clusters, const Table &embedding) {
    const char *problem = problem_of(clusters, embedding.n_rows(), embedding.width());
    if (problem != nullptr) {
        drafter.fail(problem);
    }
    return clusters;
}

}  // namespace

HeadWeights::HeadWeights(const GgufFile &drafter, Clusters given)
    : embedding(drafter.table("token_embd.weight")),
      projection(drafter.table("nextn.post_projection.weight")),
      clusters(checked(drafter, std::move(given), embedding)),
      centroids(GGML_TYPE_F32, clusters.centroids.data(), clusters.count, embedding.width(),
                nullptr) {
    if (projection.width() != embedding.width()) {
        drafter.fail("has a projection of another width than its embedding");
    }
}

Head::Head(std::shared_ptr<const HeadWeights> weights)
    : weights_(std::move(weights)),
      scores_(static_cast<size_t>(weights_->clusters.count)),
      marked_((static_cast<size_t>(weights_->embedding.n_rows()) + kWord - 1) / kWord) {
    const Clusters &clusters = weights_->clusters;
    chosen_.reserve(static_cast<size_t>(clusters.top));
    ids_.resize(static_cast<size_t>(clusters.top) * clusters.size());
    logits_.resize(ids_.size());
}

void Head::score(const std::vector<float> &hidden) {
    weights_->centroids.encode(hidden.data(), encoded_);
    weights_->centroids.multiply(encoded_, scores_.data());
    choose_clusters();
    list_candidates();
    weights_->embedding.encode(hidden.data(), encoded_);
    weights_->embedding.multiply(encoded_, ids_.data(), static_cast<int32_t>(ids_.size()),
                                 logits_.data());
}

void Head::choose_clusters() {
    if (!std::all_of(scores_.begin(), scores_.end(), [](float x) { return std::isfinite(x); })) {
        throw Error(GC_BAD_LOGITS, "the drafter's hidden row is no finite numbers");
    }
    const int32_t count = weights_->clusters.count;
    const Cut cut = cut_by_rank(scores_.data(), count, weights_->clusters.top);
    int32_t n_equal = cut.n_equal;
    chosen_.clear();
    for (int32_t cluster = 0; cluster < count; ++cluster) {
        const float score = scores_[cluster];
        if (score > cut.value || (score == cut.value && n_equal-- > 0)) {
            chosen_.push_back(cluster);
        }
    }
}

// A bit for every token puts the tokens in order faster than sorting them.
void Head::list_candidates() {
    const Clusters &clusters = weights_->clusters;
    for (const int32_t cluster : chosen_) {
        const int32_t *tokens = &clusters.ordering[static_cast<size_t>(cluster) * clusters.size()];
        for (int32_t i = 0; i < clusters.size(); ++i) {
            marked_[tokens[i] / kWord] |= uint64_t{1} << (tokens[i] % kWord);
        }
    }
    int32_t *id = ids_.data();
    for (size_t word = 0; word < marked_.size(); ++word) {
        for (uint64_t bits = marked_[word]; bits != 0; bits &= bits - 1) {
            *id++ = static_cast<int32_t>(word) * kWord + __builtin_ctzll(bits);
        }
        marked_[word] = 0;
    }
}

LogitRow Head::logits() {
    return {logits_.data(), static_cast<int32_t>(logits_.size()), ids_.data()};
}

bool Head::has_best(const std::vector<float> &hidden) {
    dense_.resize(static_cast<size_t>(weights_->embedding.n_rows()));
    weights_->embedding.encode(hidden.data(), encoded_);
    weights_->embedding.multiply(encoded_, dense_.data());
    const auto best = std::max_element(dense_.begin(), dense_.end()) - dense_.begin();
    return logits().find(static_cast<int32_t>(best)) != nullptr;
}

void Head::next_state(const std::vector<float> &hidden, std::vector<float> &state) {
    weights_->projection.encode(hidden.data(), encoded_);
    weights_->projection.multiply(encoded_, state.data());
}

}  // namespace gc
