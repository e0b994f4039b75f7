#include "drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"
#include "llama_ext.h"

namespace gc {

namespace {

// The last node of llama.cpp's graph before the head.
constexpr char kLastNorm[] = "result_norm";

ContextOptions with_exit(ContextOptions options, GraphExit *exit) {
    options.exit = exit;
    return options;
}

}  // namespace

Drafter::Drafter(llama_model *model, llama_context *target, const ContextOptions &options,
                 std::shared_ptr<const HeadWeights> head, bool traces_recall)
    : head_(head == nullptr ? nullptr : std::make_unique<Head>(std::move(head))),
      exit_(head_ == nullptr ? "" : kLastNorm),
      context_(make_context(model, with_exit(options, &exit_), target)),
      n_vocab_(llama_vocab_n_tokens(llama_model_get_vocab(model))),
      batch_(1, llama_model_n_embd_out(model)),
      state_(static_cast<size_t>(llama_model_n_embd_out(model))),
      norm_(static_cast<size_t>(llama_model_n_embd(model))),
      traces_recall_(traces_recall) {
    llama_set_embeddings_nextn(context_.get(), true, /*masked=*/true);
}

void Drafter::begin(const std::vector<float> &hidden) {
    for (Draft &draft : drafts_) {
        spare_.push_back(std::move(draft.q));
    }
    drafts_.clear();
    n_clustered_ = n_recalled_ = 0;
    state_ = hidden;
}

// One drafter pass: (token, state) -> the next token's distribution and the next state. The
// position stays that of the last committed token for the whole round, as the drafter was trained.
void Drafter::step(llama_token token, llama_pos position, Sampler &sampler) {
    batch_.clear();
    batch_.add(token, position, /*wants_logits=*/true);
    std::copy(state_.begin(), state_.end(), batch_.embedding(0));
    {
        const GraphExit::Armed armed(exit_, norm_.data(), norm_.size());
        batch_.decode(context_.get());
    }

    RowSummary raw;
    if (exit_.reached()) {
        score_clusters(sampler, raw);
    } else {
        score_vocabulary(sampler, raw);
    }
    confidence_ = std::exp(-raw.log_total);
    // Drafts may come from any distribution, if they are judged by the same. A drafter is less sure
    // of the next token than its target, so drafts from a sharper one are accepted more often.
    sharpen(next_);
}

void Drafter::score_clusters(Sampler &sampler, RowSummary &raw) {
    head_->score(norm_);
    sampler.distribution(head_->logits(), next_, &raw);
    head_->next_state(norm_, state_);
}

void Drafter::score_vocabulary(Sampler &sampler, RowSummary &raw) {
    float *logits = llama_get_logits_ith(context_.get(), 0);
    const float *next_state = llama_get_embeddings_nextn_ith(context_.get(), 0);
    if (logits == nullptr || next_state == nullptr) {
        throw Error(GC_DECODE_FAILED, "the drafter's pass returned no row");
    }
    sampler.distribution({logits, n_vocab_}, next_, &raw);
    std::copy(next_state, next_state + state_.size(), state_.begin());
}

llama_token Drafter::draw_next(Random &random) {
    if (exit_.reached()) {
        ++n_clustered_;
        n_recalled_ += traces_recall_ && head_->has_best(norm_);
    }
    Draft draft = {draw(next_, random), {}};
    if (!spare_.empty()) {
        draft.q = std::move(spare_.back());
        spare_.pop_back();
    }
    std::swap(draft.q, next_);
    drafts_.push_back(std::move(draft));
    return drafts_.back().token;
}

}  // namespace gc
