// The MTP drafter of a session: guesses the tokens after the timeline, one at a time.

#pragma once

#include <vector>

#include "context.h"
#include "verify.h"

namespace gc {

class Drafter {
public:
    // Shares the KV cache of the target's context, which must outlive it.
    Drafter(llama_model *model, llama_context *target, const ContextOptions &options);

    // Drafts up to n tokens that follow last_token at the given position. The target's cache must
    // hold exactly the positions before it; hidden is the target's hidden row that produced
    // last_token. Stops early after a token for which is_end says true. Throws Error.
    template <typename IsEnd>
    const std::vector<Draft> &draft(llama_token last_token, llama_pos position,
                                    const std::vector<float> &hidden, int32_t n,
                                    const Sampling &sampling, Random &random, IsEnd is_end) {
        begin(hidden);
        for (int32_t i = 0; i < n; ++i) {
            const llama_token token = step(last_token, position, sampling, random);
            if (is_end(token)) {
                break;
            }
            last_token = token;
        }
        return drafts_;
    }

private:
    void begin(const std::vector<float> &hidden);
    llama_token step(llama_token token, llama_pos position, const Sampling &sampling,
                     Random &random);

    ContextPtr context_;
    int32_t n_vocab_;
    Batch batch_;
    std::vector<float> state_;
    std::vector<Draft> drafts_;
};

}  // namespace gc
