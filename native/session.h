// One timeline of tokens: prefill, draft, verify, commit, roll back.
//
// What holds between calls, and what every way out of a round restores:
//   - committed_ is the timeline;
//   - the KV cache holds all of it but the last token, at positions 0, 1, 2, ...;
//   - hidden_ is the target's hidden row that produced the last token. It is empty without a
//     drafter, for a timeline of one token, and where a cancelled sync went back to an earlier
//     token.

#pragma once

#include <memory>
#include <vector>

#include "context.h"
#include "drafter.h"
#include "engine.h"
#include "gemmachat.h"
#include "schedule.h"
#include "verify.h"

namespace gc {

class Session {
public:
    Session(std::shared_ptr<const Engine> engine, const gc_session_params &params);

    void sync(const llama_token *tokens, int32_t n_tokens);
    void set_sampling(const gc_sampling &sampling);
    // Returns the number of tokens written to out.
    int32_t step(int32_t n_draft, int32_t max_tokens, gc_token *out);
    int32_t verify(const int32_t *drafts, int32_t n_drafts, int32_t max_tokens, gc_token *out);
    void probe(int32_t width, float *logits);

    Cancel &cancel() { return cancel_; }
    const gc_stats &stats() const { return stats_; }
    gc_inspection inspect() const;

private:
    int32_t n_cached() const;
    void check_cancelled() const;
    void check_token(llama_token token) const;
    void roll_back(int32_t n_keep);
    int32_t reusable_prefix(const llama_token *tokens, int32_t n_tokens) const;
    void prefill(const llama_token *tokens, int32_t n_tokens);
    void keep_hidden(int32_t row);

    int32_t round_limit(int32_t max_tokens) const;
    int32_t draft_length(int32_t wanted, int32_t limit) const;
    int32_t finish_round(const std::vector<Draft> &drafts, gc_token *out);
    const std::vector<Draft> &draft(int32_t n);
    void verify_pass(const std::vector<Draft> &drafts);
    void judge_drafts(const std::vector<Draft> &drafts);
    gc_token describe(int32_t token, const float *logits, bool from_draft) const;
    void record(int32_t n_drafted, int32_t n_accepted);
    void commit();

    const std::shared_ptr<const Engine> engine_;  // outlives every other member
    const int32_t n_ctx_;
    const bool exact_;
    const bool trace_logits_;
    Cancel cancel_;

    ContextPtr target_;
    llama_memory_t memory_;
    std::unique_ptr<Drafter> drafter_;
    Batch batch_;

    std::vector<llama_token> committed_;
    std::vector<float> hidden_;

    Sampling sampling_;
    Random random_{0};
    Schedule schedule_;
    const std::vector<Draft> no_drafts_;
    std::vector<int32_t> judged_ids_;
    std::vector<gc_token> judged_;  // what the round emits
    gc_stats stats_ = {};
};

}  // namespace gc
