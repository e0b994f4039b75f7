// The MTP drafter of a session: guesses the tokens after the timeline, one at a time.

#pragma once

#include <memory>
#include <vector>

#include "context.h"
#include "error.h"
#include "graph_exit.h"
#include "head.h"
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
    // Shares the KV cache of the target's context, which must outlive it. With a head, llama.cpp's
    // passes end before its own, which scores the whole vocabulary.
    Drafter(llama_model *model, llama_context *target, const ContextOptions &options,
            std::shared_ptr<const HeadWeights> head, bool traces_recall);

    // Drafts the tokens that follow last_token at the given position, as far as the guide wants.
    // The target's cache must hold exactly the positions before it; hidden is the target's hidden
    // row that produced last_token. The drafts are drawn under the sampler's rules, as the target's
    // tokens are; the sampler is left as it was. Stops early after a token for which is_end says
    // true, and where bans or grammar leave nothing to draft, or the grammar cannot be followed.
    // Throws Error.
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
            if (error.status != GC_NO_TOKEN && error.status != GC_TOO_COMPLEX) {
                throw;
            }
        }
        sampler.rewind();
        return drafts_;
    }

    // How many of the last drafts the head over clusters scored.
    int32_t n_clustered() const { return n_clustered_; }
    // Of those, the ones whose likeliest token of all it scored, if that is traced.
    int32_t n_recalled() const { return n_recalled_; }

private:
    void begin(const std::vector<float> &hidden);
    void step(llama_token token, llama_pos position, Sampler &sampler);
    void score_clusters(Sampler &sampler, RowSummary &raw);
    void score_vocabulary(Sampler &sampler, RowSummary &raw);
    llama_token draw_next(Random &random);

    std::unique_ptr<Head> head_;  // null: llama.cpp's alone
    GraphExit exit_;
    ContextPtr context_;
    int32_t n_vocab_;
    Batch batch_;
    std::vector<float> state_;
    std::vector<float> norm_;  // what the drafter's last norm holds, for the head
    Distribution next_;        // what the last step computed
    double confidence_ = 0.0;
    std::vector<Draft> drafts_;
    std::vector<Distribution> spare_;  // of earlier drafts, whose memory is used again
    const bool traces_recall_;
    int32_t n_clustered_ = 0;
    int32_t n_recalled_ = 0;
};

}  // namespace gc
