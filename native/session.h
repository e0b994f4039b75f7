// One timeline of tokens: prefill, draft, verify, commit, roll back.
//
// What holds between calls, and what every way out of a round restores:
//   - committed_ is the timeline;
//   - the KV cache holds all of it but the last token, at positions 0, 1, 2, ...;
//   - hidden_ is the target's hidden row that produced the last token. It is empty without a
//     drafter, for a timeline of one token, where a cancelled sync went back to an earlier token,
//     and, if prefill ends its passes early, from sync to the first round, which then drafts
//     nothing. That costs nothing: instead of a full pass for the row alone, the first round is a
//     full pass that yields the row and a token.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "context.h"
#include "drafter.h"
#include "engine.h"
#include "gemmachat.h"
#include "logprobs.h"
#include "ngram.h"
#include "sampler.h"
#include "schedule.h"
#include "shape.h"
#include "sliding_states.h"
#include "verify.h"

namespace gc {

class Session {
public:
    Session(std::shared_ptr<const Engine> engine, const gc_session_params &params);

    void sync(const llama_token *tokens, int32_t n_tokens);
    // Where the same seed must give the same text, what is learned shows in no decision.
    void set_sampling(SamplerOptions options, uint64_t seed, bool repeatable);
    void set_schedule(const gc_schedule_state &saved);
    gc_schedule_state schedule() const { return schedule_.save(); }
    // Returns the number of tokens written to out.
    int32_t step(int32_t n_draft, int32_t max_tokens, gc_token *out);
    int32_t verify(const int32_t *drafts, int32_t n_drafts, int32_t max_tokens, gc_token *out);
    // For benchmarks: from now on every draft counts as accepted with this probability.
    void set_synthetic_acceptance(double acceptance) { synthetic_acceptance_ = acceptance; }
    void probe(int32_t width, float *logits);
    // The distribution that a token after the timeline and these would be drawn from.
    void distribution(const int32_t *path, int32_t n_path, Distribution &p);

    int32_t vocab_size() const { return engine_->vocab_size(); }
    Cancel &cancel() { return cancel_; }
    const gc_stats &stats() const { return stats_; }
    // Of the tokens of the last round, if they are kept.
    const std::vector<Logprobs> &logprobs() const { return logprobs_; }
    gc_inspection inspect() const;
    // A fingerprint of all that the KV cache holds.
    uint64_t kv_hash() const;

private:
    int32_t n_cached() const;
    void check_cancelled() const;
    void check_token(llama_token token) const;
    void begin_answer();
    void roll_back(int32_t n_keep);
    int32_t reuse_prefix(const llama_token *tokens, int32_t n_tokens);
    void save_sliding();
    void prefill(const llama_token *tokens, int32_t n_tokens);
    bool skips_layers() const { return engine_->first_skipped_layer() < engine_->n_layers(); }
    void keep_hidden(int32_t row);

    int32_t round_limit(int32_t max_tokens) const;
    int32_t scheduled_round(int32_t limit, gc_token *out);
    Match look_up(int32_t n);
    const std::vector<Draft> &scheduled_drafts(Schedule &schedule, const Offer &offer);
    void end_scheduled_round(Schedule &schedule, int32_t n_drafts);
    int32_t finish_round(const std::vector<Draft> &drafts, int32_t width, gc_token *out);
    const std::vector<Draft> &draft(Guide &guide);
    void follow(const std::vector<Draft> &drafts, int32_t n);
    std::vector<Draft> certain(const int32_t *tokens, int32_t n) const;
    void verify_pass(const std::vector<Draft> &drafts, int32_t width);
    void judge_drafts(const std::vector<Draft> &drafts);
    gc_token describe(int32_t token, const float *logits, const RowSummary &summary,
                      bool from_draft) const;
    void record(int32_t n_drafted, int32_t n_accepted);
    void commit();

    const std::shared_ptr<const Engine> engine_;  // outlives every other member
    const int32_t n_ctx_;
    const bool exact_;
    const Verification verification_;
    const bool trace_logits_;
    const bool trace_acceptance_;
    std::optional<double> synthetic_acceptance_;
    Cancel cancel_;
    GraphExit exit_;  // of prefill

    ContextPtr target_;
    llama_memory_t memory_;
    std::unique_ptr<Drafter> drafter_;
    Batch batch_;
    SlidingStates sliding_;

    std::vector<llama_token> committed_;
    std::vector<float> hidden_;

    std::unique_ptr<Sampler> sampler_;
    bool answer_begun_ = false;  // the sampler has seen the timeline
    Random random_{0};
    gc_schedule_state saved_schedule_ = {};
    Schedule schedule_;                   // learns from every answer that need not be repeatable
    std::optional<Schedule> repeatable_;  // afresh from what was saved, for one that must
    NgramIndex ngrams_;                   // of a prefix of the timeline
    std::vector<int32_t> looked_up_;      // what followed at an earlier place like this
    int32_t n_clustered_ = 0;             // of the round's drafts, as in gc_stats
    int32_t n_recalled_ = 0;
    std::vector<Draft> copies_;
    const std::vector<Draft> no_drafts_;
    std::vector<int32_t> judged_ids_;
    std::vector<gc_token> judged_;    // what the round emits
    std::vector<Distribution> laws_;  // by row, where log-probabilities are kept
    std::vector<Logprobs> logprobs_;
    gc_stats stats_ = {};
};

}  // namespace gc
