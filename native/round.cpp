// A session's rounds: draft, verify, judge, commit.

#include <algorithm>
#include <cmath>
#include <string>

#include "error.h"
#include "hash.h"
#include "session.h"
#include "stopwatch.h"
#include "synthetic.h"

namespace gc {

namespace {

// Logits that are no numbers come from damaged weights: says in whose file.
[[noreturn]] void blame(const std::string &path, const Error &error) {
    if (error.status != GC_BAD_LOGITS) {
        throw error;
    }
    throw Error(GC_BAD_LOGITS,
                path + " is damaged: what it computes are no finite numbers, so get it again");
}

// Stands in a distribution for the answer that cannot go on.
constexpr int32_t kDeadEnd = -1;

// A draft of a given length.
class FixedLength : public Guide {
public:
    explicit FixedLength(int32_t n) : left_(n) {}
    bool wants_step() override { return left_-- > 0; }
    bool wants_draw(double) override { return true; }

private:
    int32_t left_;
};

bool all_finite(const std::vector<float> &row) {
    return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

void Session::begin_answer() {
    if (!answer_begun_) {
        sampler_->begin(committed_);
        answer_begun_ = true;
    }
}

// One round:
//   1. draft: the drafter guesses up to k tokens after the timeline;
//   2. verify: the target computes its distribution after the last token and after every draft, in
//      one pass;
//   3. judge: drafts are accepted from the left; the first rejected one is replaced by a draw from
//      the residual, or one more token is drawn if none was rejected;
//   4. commit: the judged tokens join the timeline, everything else leaves the cache.
int32_t Session::step(int32_t n_draft, int32_t max_tokens, gc_token *out) {
    const int32_t limit = round_limit(max_tokens);
    begin_answer();
    n_clustered_ = n_recalled_ = 0;
    if (n_draft < 0) {
        return scheduled_round(limit, out);
    }
    // A round yields at most one token more than it drafts.
    FixedLength guide(hidden_.empty() ? 0 : std::min(n_draft, limit - 1));
    const std::vector<Draft> &drafts = draft(guide);
    return finish_round(drafts, static_cast<int32_t>(drafts.size()) + 1, out);
}

int32_t Session::verify(const int32_t *drafts, int32_t n_drafts, int32_t max_tokens,
                        gc_token *out) {
    const int32_t limit = round_limit(max_tokens);
    begin_answer();
    n_clustered_ = n_recalled_ = 0;
    const std::vector<Draft> proposed = certain(drafts, std::min(n_drafts, limit - 1));
    return finish_round(proposed, static_cast<int32_t>(proposed.size()) + 1, out);
}

// Drafts that nobody drew: their distributions are point masses.
std::vector<Draft> Session::certain(const int32_t *tokens, int32_t n) const {
    std::vector<Draft> drafts;
    for (int32_t i = 0; i < n; ++i) {
        check_token(tokens[i]);
        drafts.push_back({tokens[i], {{tokens[i], 1.0}}});
    }
    return drafts;
}

// Brings the sampler behind the first n drafts.
void Session::follow(const std::vector<Draft> &drafts, int32_t n) {
    sampler_->rewind();
    for (int32_t i = 0; i < n; ++i) {
        sampler_->push(drafts[static_cast<size_t>(i)].token);
    }
}

void Session::distribution(const int32_t *path, int32_t n_path, Distribution &p) {
    if (round_limit(n_path + 1) <= n_path) {
        throw Error(GC_CONTEXT_FULL, "the context has no room for the path");
    }
    begin_answer();
    const std::vector<Draft> drafts = certain(path, n_path);
    const int32_t n_vocab = engine_->vocab_size();
    try {
        verify_pass(drafts, n_path + 1);
        follow(drafts, n_path);
        float *row = llama_get_logits_ith(target_.get(), n_path);
        if (row == nullptr) {
            throw Error(GC_DECODE_FAILED, "the target's pass returned no logits");
        }
        sampler_->distribution({row, n_vocab}, p);
    } catch (...) {
        roll_back(n_cached());
        sampler_->rewind();
        throw;
    }
    roll_back(n_cached());
    sampler_->rewind();
}

// Most tokens that a round may yield now.
int32_t Session::round_limit(int32_t max_tokens) const {
    if (committed_.empty()) {
        throw Error(GC_BAD_ARGUMENT, "there is no prompt: call gc_session_sync first");
    }
    const int32_t room = n_ctx_ - static_cast<int32_t>(committed_.size());
    if (room <= 0) {
        throw Error(GC_CONTEXT_FULL,
                    "the context of " + std::to_string(n_ctx_) + " tokens is full");
    }
    check_cancelled();
    return std::min(max_tokens, room);
}

int32_t Session::finish_round(const std::vector<Draft> &drafts, int32_t width, gc_token *out) {
    try {
        verify_pass(drafts, width);
        judge_drafts(drafts);
    } catch (...) {
        roll_back(n_cached());
        throw;
    }
    commit();
    std::copy(judged_.begin(), judged_.end(), out);
    return static_cast<int32_t>(judged_.size());
}

const std::vector<Draft> &Session::draft(Guide &guide) {
    if (drafter_ == nullptr || hidden_.empty()) {
        return no_drafts_;
    }
    const Stopwatch stopwatch(stats_.draft_s);
    try {
        const std::vector<Draft> &drafts =
            drafter_->draft(committed_.back(), n_cached(), hidden_, guide, *sampler_, random_,
                            [this](llama_token token) { return engine_->is_end(token); });
        n_clustered_ = drafter_->n_clustered();
        n_recalled_ = drafter_->n_recalled();
        return drafts;
    } catch (const Error &error) {
        // The drafter starts from what the target computed.
        blame(all_finite(hidden_) ? engine_->drafter_path() : engine_->target_path(), error);
    }
}

// Row 0 is the last token, row i the i-th draft. More rows pad the pass to the width: in exact mode
// always the same, because llama.cpp's kernels may round differently at another.
void Session::verify_pass(const std::vector<Draft> &drafts, int32_t width) {
    const Stopwatch stopwatch(stats_.verify_s);
    const int32_t start = n_cached();
    batch_.clear();
    batch_.add(committed_.back(), start, true);
    int32_t n = 1;
    for (const Draft &draft : drafts) {
        batch_.add(draft.token, start + n++, true);
    }
    while (n < (exact_ ? GC_MAX_WIDTH : width)) {
        batch_.add(committed_.back(), start + n++, true);
    }
    batch_.decode(target_.get());
    llama_synchronize(target_.get());
}

// Decides what the round emits; nothing follows a token that ends the turn or comes to a dead end.
void Session::judge_drafts(const std::vector<Draft> &drafts) {
    const Stopwatch stopwatch(stats_.sample_s);
    const int32_t n_vocab = engine_->vocab_size();
    // The rows of a pass lie one after the other.
    float *logits = llama_get_logits_ith(target_.get(), 0);
    if (logits == nullptr) {
        throw Error(GC_DECODE_FAILED, "the target's pass returned no logits");
    }
    const bool keeps_laws = sampler_->n_logprobs() > 0;
    laws_.resize(keeps_laws ? drafts.size() + 1 : 0);
    std::vector<RowSummary> summaries(drafts.size() + 1);
    const auto target_at = [&](int32_t n, Distribution &p) {
        follow(drafts, n);
        try {
            sampler_->distribution({logits + static_cast<size_t>(n) * n_vocab, n_vocab}, p,
                                   &summaries[static_cast<size_t>(n)]);
        } catch (const Error &error) {
            // Fatal once the answer is there: drafts that lead there may yet be rejected.
            const bool ends_here = error.status == GC_NO_TOKEN || error.status == GC_TOO_COMPLEX;
            if (!ends_here || n == 0) {
                throw;
            }
            p = {{kDeadEnd, 1.0}};
        }
        if (keeps_laws) {
            laws_[static_cast<size_t>(n)] = p;
        }
    };
    try {
        if (trace_acceptance_) {
            stats_.expected_block += expected_kept(drafts, target_at, Verification::kBlock);
            stats_.expected_token_wise +=
                expected_kept(drafts, target_at, Verification::kTokenWise);
        }
        if (synthetic_acceptance_) {
            judge_by_decree(drafts, target_at, *synthetic_acceptance_, random_, judged_ids_);
        } else {
            judge(drafts, target_at, verification_, random_, judged_ids_);
        }
    } catch (const Error &error) {
        blame(engine_->target_path(), error);
    }

    const auto n_accepted = static_cast<int32_t>(judged_ids_.size()) - 1;
    judged_.clear();
    logprobs_.clear();
    for (const int32_t id : judged_ids_) {
        if (id == kDeadEnd) {
            break;
        }
        const size_t row = judged_.size();
        const float *row_logits = logits + row * n_vocab;
        const RowSummary &summary = summaries[row];
        judged_.push_back(
            describe(id, row_logits, summary, static_cast<int32_t>(row) < n_accepted));
        if (keeps_laws) {
            logprobs_.push_back(describe_logprobs(id, row_logits, n_vocab, summary, laws_[row],
                                                  sampler_->n_logprobs()));
        }
        if (engine_->is_end(id)) {
            break;
        }
    }
    record(static_cast<int32_t>(drafts.size()), n_accepted);
}

gc_token Session::describe(int32_t token, const float *logits, const RowSummary &summary,
                           bool from_draft) const {
    gc_token described = {};
    described.id = token;
    described.from_draft = from_draft;
    described.logprob = summary.log_probability(logits[token]);
    if (trace_logits_) {
        described.logits_hash = hash_floats(logits, static_cast<size_t>(engine_->vocab_size()));
    }
    return described;
}

void Session::record(int32_t n_drafted, int32_t n_accepted) {
    ++stats_.rounds;
    stats_.drafted += n_drafted;
    stats_.clustered += n_clustered_;
    stats_.recalled += n_recalled_;
    stats_.accepted += n_accepted;
    for (int32_t i = 0; i < n_drafted; ++i) {
        ++stats_.drafted_by_position[i];
        stats_.accepted_by_position[i] += i < n_accepted;
    }
}

// The emitted tokens join the timeline; what else the pass put into the cache leaves it.
void Session::commit() {
    sampler_->rewind();
    try {
        for (const gc_token &token : judged_) {
            sampler_->commit(token.id);
        }
    } catch (...) {
        answer_begun_ = false;  // the sampler may be ahead of the timeline
        roll_back(n_cached());
        throw;
    }
    for (const gc_token &token : judged_) {
        committed_.push_back(token.id);
    }
    roll_back(n_cached());
    keep_hidden(static_cast<int32_t>(judged_.size()) - 1);
}

}  // namespace gc
