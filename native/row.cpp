#include "row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cut.h"
#include "error.h"

namespace gc {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

int32_t blocks_of(int32_t n) { return (n + kBlock - 1) / kBlock; }

}  // namespace

void Candidates::reserve(int32_t n_vocab) {
    const auto size = (static_cast<size_t>(n_vocab) / kBlock + 1) * kBlock;
    if (ids.size() < size) {
        ids.resize(size);
        logits.resize(size);
        weights.resize(size);
    }
}

void Row::read(const RowKernels &kernels, const float *logits, int32_t n_vocab) {
    kernels_ = &kernels;
    logits_ = logits;
    n_vocab_ = n_vocab;
    n_whole_ = n_vocab / kBlock;
    total_scale_ = -1.0f;
    const float *end = logits + n_vocab;
    std::fill(std::copy(logits + static_cast<size_t>(n_whole_) * kBlock, end, tail_),
              tail_ + kBlock, kNothing);
    block_max_.assign(static_cast<size_t>(blocks_of(n_whole_ + 1)) * kBlock, kNothing);
    const bool whole_ok = kernels.scan(logits, n_whole_, block_max_.data());
    const bool tail_ok = kernels.scan(tail_, 1, &block_max_[n_whole_]);
    max_ = *std::max_element(block_max_.begin(), block_max_.end());
    if (!whole_ok || !tail_ok || std::isinf(max_)) {
        throw Error(GC_BAD_LOGITS, "the logits are not finite numbers");
    }
}

int32_t Row::best_id() const {
    const auto block = std::find(block_max_.begin(), block_max_.end(), max_) - block_max_.begin();
    return static_cast<int32_t>(std::find(logits_ + block * kBlock, logits_ + n_vocab_, max_) -
                                logits_);
}

double Row::total(float scale) {
    return scale == total_scale_ ? total_ : weigh_blocks(scale, nullptr);
}

double Row::weigh(float scale, std::vector<float> &weights) {
    return weigh_blocks(scale, weights.data());
}

double Row::weigh_blocks(float scale, float *weights) {
    total_ = kernels_->weigh(logits_, n_whole_, max_, scale, weights);
    total_ += kernels_->weigh(tail_, 1, max_, scale,
                              weights == nullptr ? nullptr : weights + n_whole_ * kBlock);
    total_scale_ = scale;
    return total_;
}

float Row::rank_floor(int32_t k, float lowest) const {
    const int32_t n_blocks = n_whole_ + 1;
    if (k > n_blocks) {
        return lowest;
    }
    // k groups of blocks have k different tokens as their maxima. With about 4k groups their k-th
    // largest lies close to the k-th largest logit. Blocks are dealt out in turn, because likely
    // tokens can lie side by side.
    int32_t n_groups = kBlock;
    while (n_groups < 4 * static_cast<int64_t>(k)) {
        n_groups *= 2;
    }
    n_groups = std::min(n_groups, n_blocks);
    thread_local std::vector<float> groups;
    groups.assign(static_cast<size_t>(n_groups), lowest);
    for (int32_t start = 0; start < n_blocks; start += n_groups) {
        const int32_t n = std::min(n_groups, n_blocks - start);
        for (int32_t i = 0; i < n; ++i) {
            groups[i] = std::max(groups[i], block_max_[start + i]);
        }
    }
    return cut_by_rank(groups.data(), n_groups, k).value;
}

float Row::mass_floor(float scale, double goal, float lowest) {
    // Every block has one token as likely as its maximum.
    block_weight_.resize(block_max_.size());
    const double known = kernels_->weigh(block_max_.data(), blocks_of(n_whole_ + 1), max_, scale,
                                         block_weight_.data());
    if (known < goal) {
        return lowest;
    }
    thread_local std::vector<float> maxima;
    maxima.resize(block_max_.size());
    std::transform(block_max_.begin(), block_max_.end(), maxima.begin(),
                   [lowest](float max) { return std::max(max, lowest); });
    return cut_by_mass(maxima.data(), block_weight_.data(), n_whole_ + 1, goal).value;
}

void Row::collect(float floor, Candidates &candidates) const {
    candidates.reserve(n_vocab_);
    int32_t *ids = candidates.ids.data();
    float *logits = candidates.logits.data();
    int32_t n = 0;
    for (int32_t block = 0; block <= n_whole_; ++block) {
        if (block_max_[block] >= floor) {
            const int32_t start = block * kBlock;
            const int32_t end = std::min(start + kBlock, n_vocab_);
            for (int32_t id = start; id < end; ++id) {
                ids[n] = id;
                logits[n] = logits_[id];
                n += logits_[id] >= floor;
            }
        }
    }
    candidates.n = n;
}

double Row::weigh(float scale, Candidates &candidates) const {
    const int32_t n_blocks = blocks_of(candidates.n);
    std::fill(candidates.logits.begin() + candidates.n,
              candidates.logits.begin() + n_blocks * kBlock, kNothing);
    return kernels_->weigh(candidates.logits.data(), n_blocks, max_, scale,
                           candidates.weights.data());
}

}  // namespace gc
