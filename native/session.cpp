#include "session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

#include "error.h"
#include "hash.h"
#include "llama_ext.h"

namespace gc {

namespace {

constexpr int32_t kBatch = 512;  // tokens of a prefill pass

// Adds the life of the object to a total, in seconds.
class Stopwatch {
public:
    explicit Stopwatch(double &total) : total_(total) {}
    ~Stopwatch() {
        total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;

private:
    double &total_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Logits that are no numbers come from damaged weights: says in whose file.
[[noreturn]] void blame(const std::string &path, const Error &error) {
    if (error.status != GC_BAD_LOGITS) {
        throw error;
    }
    throw Error(GC_BAD_LOGITS,
                path + " is damaged: what it computes are no finite numbers, so get it again");
}

bool all_finite(const std::vector<float> &row) {
    return std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
}

ContextOptions context_options(const gc_session_params &params, Cancel *cancel) {
    ContextOptions options;
    // Drafts and padding may stand past the last token that the caller can commit.
    options.n_cells = static_cast<uint32_t>(params.n_ctx) + GC_MAX_WIDTH;
    options.n_batch = kBatch;
    options.n_outputs = GC_MAX_WIDTH;
    options.n_threads = params.n_threads;
    // A sliding layer's ring of cells fills in an order that depends on what was rejected, and the
    // order of a sum shows in its last bits. With a cell for every position it cannot.
    options.full_swa = params.exact;
    options.cancel = cancel;
    return options;
}

}  // namespace

Session::Session(std::shared_ptr<const Engine> engine, const gc_session_params &params)
    : engine_(std::move(engine)),
      n_ctx_(params.n_ctx),
      exact_(params.exact),
      trace_logits_(params.trace_logits),
      batch_(kBatch, 0) {
    const ContextOptions options = context_options(params, &cancel_);
    target_ = make_context(engine_->target(), options, nullptr);
    memory_ = llama_get_memory(target_.get());
    // Masked, the last layer computes only the rows that are asked for, hidden rows or not.
    llama_set_embeddings_nextn(target_.get(), engine_->drafter() != nullptr, /*masked=*/true);
    if (engine_->drafter() != nullptr) {
        drafter_ = std::make_unique<Drafter>(engine_->drafter(), target_.get(), options);
    }
}

int32_t Session::n_cached() const {
    return std::max(static_cast<int32_t>(committed_.size()) - 1, 0);
}

void Session::check_cancelled() const {
    if (cancel_.requested()) {
        throw Error(GC_CANCELLED, "cancelled");
    }
}

void Session::check_token(llama_token token) const {
    if (token < 0 || token >= engine_->vocab_size()) {
        throw Error(GC_BAD_ARGUMENT,
                    "token " + std::to_string(token) + " is outside the vocabulary");
    }
}

// Drops every cached position from n_keep on.
void Session::roll_back(int32_t n_keep) { llama_memory_seq_rm(memory_, 0, n_keep, -1); }

// The longest common prefix whose KV cells are all still there. Sliding layers forget positions
// that have left their window, so a long way back means starting over.
int32_t Session::reusable_prefix(const llama_token *tokens, int32_t n_tokens) const {
    const auto n_max = std::min(n_tokens, static_cast<int32_t>(committed_.size()));
    const auto n_common = static_cast<int32_t>(
        std::mismatch(tokens, tokens + n_max, committed_.begin()).first - tokens);
    // The row before the last token must be computed, not reused: it yields the hidden row.
    const int32_t n_reused = std::max(std::min({n_common, n_cached(), n_tokens - 2}), 0);
    const llama_pos oldest_needed =
        std::max(n_reused + 1 - llama_model_n_swa(engine_->target()), 0);
    return llama_memory_seq_pos_min(memory_, 0) <= oldest_needed ? n_reused : 0;
}

void Session::sync(const llama_token *tokens, int32_t n_tokens) {
    if (n_tokens > n_ctx_) {
        throw Error(GC_CONTEXT_FULL, "the prompt has " + std::to_string(n_tokens) +
                                         " tokens and the context holds " + std::to_string(n_ctx_));
    }
    for (int32_t i = 0; i < n_tokens; ++i) {
        check_token(tokens[i]);
    }
    stats_ = {};
    const bool unchanged = static_cast<size_t>(n_tokens) == committed_.size() &&
                           std::equal(committed_.begin(), committed_.end(), tokens);
    if (unchanged && (drafter_ == nullptr || n_cached() == 0 || !hidden_.empty())) {
        stats_.cached_tokens = n_cached();
        return;
    }
    const int32_t n_reused = reusable_prefix(tokens, n_tokens);
    stats_.cached_tokens = n_reused;
    if (n_reused < n_cached()) {
        hidden_.clear();
    }
    roll_back(n_reused);
    committed_.assign(tokens, tokens + std::min(n_reused + 1, n_tokens));
    prefill(tokens, n_tokens);
}

// Computes the missing positions up to the one before the last token. After every pass the timeline
// is as long as the cache allows, so that a cancel between passes leaves it whole.
void Session::prefill(const llama_token *tokens, int32_t n_tokens) {
    const Stopwatch stopwatch(stats_.prefill_s);
    while (n_cached() < n_tokens - 1) {
        check_cancelled();
        const int32_t start = n_cached();
        const int32_t n = std::min(kBatch, n_tokens - 1 - start);
        batch_.clear();
        for (int32_t i = 0; i < n; ++i) {
            const bool last = i == n - 1;
            batch_.add(tokens[start + i], start + i, last && drafter_ != nullptr);
        }
        batch_.decode(target_.get());
        stats_.prefilled_tokens += n;
        committed_.assign(tokens, tokens + start + n + 1);
        keep_hidden(n - 1);
    }
}

void Session::keep_hidden(int32_t row) {
    if (drafter_ == nullptr) {
        return;
    }
    const float *hidden = llama_get_embeddings_nextn_ith(target_.get(), row);
    if (hidden == nullptr) {
        throw Error(GC_DECODE_FAILED, "the target's pass returned no hidden row");
    }
    hidden_.assign(hidden, hidden + llama_model_n_embd(engine_->target()));
}

void Session::set_sampling(const gc_sampling &sampling) {
    sampling_ = {sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p};
    random_ = Random(sampling.seed);
    // Afresh for every answer: what is drafted shows in what is drawn, and the same seed must give
    // the same text whatever was said before.
    schedule_ = Schedule();
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
    return finish_round(draft(draft_length(n_draft, limit)), out);
}

int32_t Session::verify(const int32_t *drafts, int32_t n_drafts, int32_t max_tokens,
                        gc_token *out) {
    const int32_t limit = round_limit(max_tokens);
    std::vector<Draft> proposed;
    for (int32_t i = 0; i < std::min(n_drafts, limit - 1); ++i) {
        check_token(drafts[i]);
        proposed.push_back({drafts[i], {{drafts[i], 1.0}}});  // a point mass: nothing was drawn
    }
    return finish_round(proposed, out);
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

int32_t Session::finish_round(const std::vector<Draft> &drafts, gc_token *out) {
    try {
        verify_pass(drafts);
        judge_drafts(drafts);
    } catch (...) {
        roll_back(n_cached());
        throw;
    }
    commit();
    std::copy(judged_.begin(), judged_.end(), out);
    return static_cast<int32_t>(judged_.size());
}

// A round yields at most one token more than it drafts, so the limit caps the draft.
int32_t Session::draft_length(int32_t wanted, int32_t limit) const {
    if (hidden_.empty()) {
        return 0;
    }
    const int32_t n = wanted < 0 ? schedule_.draft_length() : wanted;
    return std::min({n, limit - 1, GC_MAX_DRAFT});
}

const std::vector<Draft> &Session::draft(int32_t n) {
    if (n <= 0) {
        return no_drafts_;
    }
    const Stopwatch stopwatch(stats_.draft_s);
    try {
        return drafter_->draft(committed_.back(), n_cached(), hidden_, n, sampling_, random_,
                               [this](llama_token token) { return engine_->is_end(token); });
    } catch (const Error &error) {
        // The drafter starts from what the target computed.
        blame(all_finite(hidden_) ? engine_->drafter_path() : engine_->target_path(), error);
    }
}

// Row 0 is the last token, row i the i-th draft. In exact mode more rows pad the pass to one width,
// because llama.cpp's kernels may round differently at another.
void Session::verify_pass(const std::vector<Draft> &drafts) {
    const Stopwatch stopwatch(stats_.verify_s);
    const int32_t start = n_cached();
    batch_.clear();
    batch_.add(committed_.back(), start, true);
    int32_t n = 1;
    for (const Draft &draft : drafts) {
        batch_.add(draft.token, start + n++, true);
    }
    while (exact_ && n < GC_MAX_WIDTH) {
        batch_.add(committed_.back(), start + n++, true);
    }
    batch_.decode(target_.get());
    llama_synchronize(target_.get());
}

// Decides what the round emits; nothing follows a token that ends the turn.
void Session::judge_drafts(const std::vector<Draft> &drafts) {
    const Stopwatch stopwatch(stats_.sample_s);
    const int32_t n_vocab = engine_->vocab_size();
    // The rows of a pass lie one after the other.
    const float *logits = llama_get_logits_ith(target_.get(), 0);
    if (logits == nullptr) {
        throw Error(GC_DECODE_FAILED, "the target's pass returned no logits");
    }
    try {
        judge(logits, n_vocab, drafts, sampling_, random_, judged_ids_);
    } catch (const Error &error) {
        blame(engine_->target_path(), error);
    }

    const auto n_accepted = static_cast<int32_t>(judged_ids_.size()) - 1;
    judged_.clear();
    for (const int32_t id : judged_ids_) {
        const auto row = static_cast<int32_t>(judged_.size());
        judged_.push_back(
            describe(id, logits + static_cast<size_t>(row) * n_vocab, row < n_accepted));
        if (engine_->is_end(id)) {
            break;
        }
    }
    record(static_cast<int32_t>(drafts.size()), n_accepted);
}

gc_token Session::describe(int32_t token, const float *logits, bool from_draft) const {
    const int32_t n_vocab = engine_->vocab_size();
    gc_token described = {};
    described.id = token;
    described.from_draft = from_draft;
    described.logprob = log_probability(logits, n_vocab, token);
    if (trace_logits_) {
        described.logits_hash = hash_floats(logits, static_cast<size_t>(n_vocab));
    }
    return described;
}

void Session::record(int32_t n_drafted, int32_t n_accepted) {
    ++stats_.rounds;
    stats_.parked_rounds += schedule_.parked();
    stats_.drafted += n_drafted;
    stats_.accepted += n_accepted;
    for (int32_t i = 0; i < n_drafted; ++i) {
        ++stats_.drafted_by_position[i];
        stats_.accepted_by_position[i] += i < n_accepted;
    }
    schedule_.record(n_drafted, n_accepted);
}

// The emitted tokens join the timeline; what else the pass put into the cache leaves it.
void Session::commit() {
    for (const gc_token &token : judged_) {
        committed_.push_back(token.id);
    }
    roll_back(n_cached());
    keep_hidden(static_cast<int32_t>(judged_.size()) - 1);
}

void Session::probe(int32_t width, float *logits) {
    if (committed_.empty() || width < 1 || width > GC_MAX_WIDTH) {
        throw Error(GC_BAD_ARGUMENT,
                    "a probe needs a timeline and a width of 1 to " + std::to_string(GC_MAX_WIDTH));
    }
    batch_.clear();
    for (int32_t i = 0; i < width; ++i) {
        batch_.add(committed_.back(), n_cached() + i, true);
    }
    batch_.decode(target_.get());
    const float *row = llama_get_logits_ith(target_.get(), 0);
    if (row != nullptr) {
        std::copy(row, row + engine_->vocab_size(), logits);
    }
    roll_back(n_cached());
    if (row == nullptr) {
        throw Error(GC_DECODE_FAILED, "the target's pass returned no logits");
    }
}

gc_inspection Session::inspect() const {
    gc_inspection inspection = {};
    inspection.n_committed = static_cast<int64_t>(committed_.size());
    inspection.n_cached = n_cached();
    inspection.position_max = llama_memory_seq_pos_max(memory_, 0);
    inspection.state_bytes = llama_state_seq_get_size(target_.get(), 0);
    inspection.has_hidden = !hidden_.empty();
    inspection.hidden_hash = hidden_.empty() ? 0 : hash_floats(hidden_.data(), hidden_.size());
    return inspection;
}

}  // namespace gc
