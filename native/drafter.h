// The MTP drafter of a session: guesses the tokens after the timeline, one at a time.

#pragma once

#include <vector>

#include "context.h"
#include "error.h"
#include "sampler.h"
#include "verify.h"

namespace gc {

// Decides how far a draft goes. What it may look at, schedule.h says.
class Guide {
public:
    virtual ~Guide() = default;
    virtual bool wants_step() = 0;  // before a pass
    // Between a pass and the draw from its distribution. confidence: the probability of the
    // likeliest token at temperature 1, unfiltered.
    virtual bool wants_draw(double confidence) = 0;
};

class Drafter {
public:
    // Shares the KV cache of the target's context, which must outlive it.
    Drafter(llama_model *model, llama_context *target, const ContextOptions &options);

    // Drafts the tokens that follow last_token at the given position, as far as the guide wants.
    // The target's cache must hold exactly the positions before it; hidden is the target's hidden
    // row that produced last_token. The drafts are drawn under the sampler's rules, as the target's
    // tokens are; the sampler is left as it was. Stops early after a token for which is_end says
    // true, and where bans or grammar leave nothing to draft. Throws Error.
    template <typename IsEnd>
    const std::vector<Draft> &draft(llama_token last_token, llama_pos position,
                                    const std::vector<float> &hidden, Guide &guide,
                                    Sampler &sampler, Random &random, IsEnd is_end) {
        begin(hidden);
        sampler.rewind();
        try {
            while (guide.wants_step()) {
                step(last_token, position, sampler);
                if (!guide.wants_draw(confidence_)) {
                    break;
                }
                const llama_token token = draw_next(random);
                if (is_end(token)) {
                    break;
                }
                sampler.push(token);
                last_token = token;
            }
        } catch (const Error &error) {
            if (error.status != GC_NO_TOKEN) {
                throw;
            }
        }
        sampler.rewind();
        return drafts_;
    }

private:
    void begin(const std::vector<float> &hidden);
    void step(llama_token token, llama_pos position, Sampler &sampler);
    llama_token draw_next(Random &random);

    ContextPtr context_;
    int32_t n_vocab_;
    Batch batch_;
    std::vector<float> state_;
    Distribution next_;  // what the last step computed
    double confidence_ = 0.0;
    std::vector<Draft> drafts_;
};

}  // namespace gc
