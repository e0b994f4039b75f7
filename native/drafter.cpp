#include "drafter.h"

#include <algorithm>
#include <cmath>

#include "error.h"
#include "llama_ext.h"

namespace gc {

Drafter::Drafter(llama_model *model, llama_context *target, const ContextOptions &options)
    : context_(make_context(model, options, target)),
      n_vocab_(llama_vocab_n_tokens(llama_model_get_vocab(model))),
      batch_(1, llama_model_n_embd_out(model)),
      state_(static_cast<size_t>(llama_model_n_embd_out(model))) {
    llama_set_embeddings_nextn(context_.get(), true, /*masked=*/true);
}

void Drafter::begin(const std::vector<float> &hidden) {
    drafts_.clear();
    state_ = hidden;
}

// One drafter pass: (token, state) -> the next token's distribution and the next state. The
// position stays that of the last committed token for the whole round, as the drafter was trained.
void Drafter::step(llama_token token, llama_pos position, Sampler &sampler) {
    batch_.clear();
    batch_.add(token, position, /*wants_logits=*/true);
    std::copy(state_.begin(), state_.end(), batch_.embedding(0));
    batch_.decode(context_.get());

    float *logits = llama_get_logits_ith(context_.get(), 0);
    const float *next_state = llama_get_embeddings_nextn_ith(context_.get(), 0);
    if (logits == nullptr || next_state == nullptr) {
        throw Error(GC_DECODE_FAILED, "the drafter's pass returned no row");
    }
    sampler.distribution(logits, n_vocab_, next_);
    confidence_ = std::exp(-summarise(logits, n_vocab_).log_total);
    std::copy(next_state, next_state + state_.size(), state_.begin());
}

llama_token Drafter::draw_next(Random &random) {
    drafts_.push_back({draw(next_, random), next_});
    return drafts_.back().token;
}

}  // namespace gc
