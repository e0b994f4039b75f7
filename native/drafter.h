// The MTP drafter of a session: guesses the tokens after the timeline, one at a time.

#pragma once

#include <vector>

#include "context.h"
#include "error.h"
#include "sampler.h"
#include "verify.h"

namespace gc {

class Drafter {
public:
    // Shares the KV cache of the target's context, which must outlive it.
    Drafter(llama_model *model, llama_context *target, const ContextOptions &options);

    // Drafts up to n tokens that follow last_token at the given position. The target's cache must
    // hold exactly the positions before it; hidden is the target's hidden row that produced
    // last_token. The drafts are drawn under the sampler's rules, as the target's tokens are; the
    // sampler is left as it was. Stops early after a token for which is_end says true, and where
    // bans or grammar leave nothing to draft, or the grammar cannot be followed. Throws Error.
    template <typename IsEnd>
    const std::vector<Draft> &draft(llama_token last_token, llama_pos position,
                                    const std::vector<float> &hidden, int32_t n, Sampler &sampler,
                                    Random &random, IsEnd is_end) {
        begin(hidden);
        sampler.rewind();
        try {
            for (int32_t i = 0; i < n; ++i) {
                const llama_token token = step(last_token, position, sampler, random);
                if (is_end(token)) {
                    break;
                }
                sampler.push(token);
                last_token = token;
            }
        } catch (const Error &error) {
            if (error.status != GC_NO_TOKEN && error.status != GC_TOO_COMPLEX) {
                throw;
            }
        }
        sampler.rewind();
        return drafts_;
    }

private:
    void begin(const std::vector<float> &hidden);
    llama_token step(llama_token token, llama_pos position, Sampler &sampler, Random &random);

    ContextPtr context_;
    int32_t n_vocab_;
    Batch batch_;
    std::vector<float> state_;
    std::vector<Draft> drafts_;
};

}  // namespace gc
