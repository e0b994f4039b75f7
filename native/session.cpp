#include "session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "error.h"
#include "hash.h"
#include "llama_ext.h"
#include "stopwatch.h"

namespace gc {

namespace {

constexpr int32_t kBatch = 512;  // tokens of a prefill pass

// The node after which a prefill pass may end: the output of the last layer that owns keys and
// values. Empty: none.
std::string exit_node(const Engine &engine, const gc_session_params &params) {
    const int32_t first_skipped = engine.first_skipped_layer();
    if (params.no_early_exit || first_skipped == engine.n_layers()) {
        return {};
    }
    return params.exit_node != nullptr ? params.exit_node
                                       : "l_out-" + std::to_string(first_skipped - 1);
}

llama_flash_attn_type flash_attention(int32_t wanted) {
    switch (wanted) {
        case GC_FLASH_OFF:
            return LLAMA_FLASH_ATTN_TYPE_DISABLED;
        case GC_FLASH_ON:
            return LLAMA_FLASH_ATTN_TYPE_ENABLED;
        default:
            return LLAMA_FLASH_ATTN_TYPE_AUTO;
    }
}

ContextOptions context_options(const gc_session_params &params, Cancel *cancel, GraphExit *exit) {
    ContextOptions options;
    // Drafts and padding may stand past the last token that the caller can commit.
    options.n_cells = static_cast<uint32_t>(params.n_ctx) + GC_MAX_WIDTH;
    options.n_batch = kBatch;
    options.n_outputs = GC_MAX_WIDTH;
    options.n_threads = params.n_threads;
    options.kv_type = params.kv_type == GC_KV_Q8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    options.flash_attention = flash_attention(params.flash_attention);
    // A sliding layer's ring of cells fills in an order that depends on what was rejected, and the
    // order of a sum shows in its last bits. With a cell for every position it cannot.
    options.full_swa = params.exact;
    options.cancel = cancel;
    options.exit = exit;
    return options;
}

}  // namespace

Session::Session(std::shared_ptr<const Engine> engine, const gc_session_params &params)
    : engine_(std::move(engine)),
      n_ctx_(params.n_ctx),
      exact_(params.exact),
      verification_(params.token_wise ? Verification::kTokenWise : Verification::kBlock),
      trace_logits_(params.trace_logits),
      trace_acceptance_(params.trace_acceptance),
      exit_(exit_node(*engine_, params)),
      batch_(kBatch, 0),
      sliding_(llama_model_n_swa(engine_->target())),
      sampler_(std::make_unique<Sampler>(*engine_, SamplerOptions())),
      schedule_(saved_schedule_, exact_, /*learns_costs=*/true) {
    const ContextOptions options = context_options(params, &cancel_, &exit_);
    target_ = make_context(engine_->target(), options, nullptr);
    memory_ = llama_get_memory(target_.get());
    // Masked, the last layer computes only the rows that are asked for, hidden rows or not.
    llama_set_embeddings_nextn(target_.get(), engine_->drafter() != nullptr, /*masked=*/true);
    if (engine_->drafter() != nullptr) {
        drafter_ = std::make_unique<Drafter>(engine_->drafter(), target_.get(), options,
                                             params.dense_head ? nullptr : engine_->head(),
                                             params.trace_recall);
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

// The longest common prefix whose KV cells are all there. Sliding layers forget positions that have
// left their window, so a long way back needs cells that were saved, or means starting over.
int32_t Session::reuse_prefix(const llama_token *tokens, int32_t n_tokens) {
    const auto n_max = std::min(n_tokens, static_cast<int32_t>(committed_.size()));
    const auto n_common = static_cast<int32_t>(
        std::mismatch(tokens, tokens + n_max, committed_.begin()).first - tokens);
    // Unless the first round yields the hidden row, prefill must: it computes the row before the
    // last token even where that could be reused.
    const int32_t n_most = skips_layers() ? n_tokens - 1 : n_tokens - 2;
    const int32_t n_reused = std::max(std::min({n_common, n_cached(), n_most}), 0);
    if (n_reused == n_cached() && n_reused < n_tokens - 1) {
        save_sliding();  // the next question may be taken back
    }
    sliding_.cut(n_common);
    const bool all_there = sliding_.suffices(llama_memory_seq_pos_min(memory_, 0), n_reused);
    return all_there ? n_reused : sliding_.restore(target_.get(), n_reused);
}

// Where the cache holds a cell for every position, none is ever missed.
void Session::save_sliding() {
    if (!exact_) {
        sliding_.save(target_.get(), n_cached());
    }
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
    answer_begun_ = false;
    if (skips_layers()) {
        hidden_.clear();  // even if it is known: the same seed must draft in the same rounds
    }
    const bool unchanged = static_cast<size_t>(n_tokens) == committed_.size() &&
                           std::equal(committed_.begin(), committed_.end(), tokens);
    const bool needs_hidden = drafter_ != nullptr && n_cached() > 0 && !skips_layers();
    if (unchanged && !(needs_hidden && hidden_.empty())) {
        stats_.cached_tokens = n_cached();
        return;
    }
    const int32_t n_reused = reuse_prefix(tokens, n_tokens);
    stats_.cached_tokens = n_reused;
    if (n_reused < n_cached()) {
        hidden_.clear();
    }
    roll_back(n_reused);
    ngrams_.cut(n_reused);
    committed_.assign(tokens, tokens + std::min(n_reused + 1, n_tokens));
    prefill(tokens, n_tokens);
    save_sliding();  // the answer may be taken back, or its thoughts
}

// Computes the missing positions up to the one before the last token. After every pass the timeline
// is as long as the cache allows, so that a cancel between passes leaves it whole.
// No row is asked for where the passes end early; without the exit they are the same but complete.
void Session::prefill(const llama_token *tokens, int32_t n_tokens) {
    const Stopwatch stopwatch(stats_.prefill_s);
    const bool yields_hidden = drafter_ != nullptr && !skips_layers();
    while (n_cached() < n_tokens - 1) {
        check_cancelled();
        const int32_t start = n_cached();
        const int32_t n = std::min(kBatch, n_tokens - 1 - start);
        batch_.clear();
        for (int32_t i = 0; i < n; ++i) {
            const bool last = i == n - 1;
            batch_.add(tokens[start + i], start + i, last && yields_hidden);
        }
        {
            const GraphExit::Armed armed(exit_);
            batch_.decode(target_.get());
        }
        stats_.prefilled_tokens += n;
        stats_.exited_tokens += exit_.reached() ? n : 0;
        committed_.assign(tokens, tokens + start + n + 1);
        if (yields_hidden) {
            keep_hidden(n - 1);
        }
    }
}

void Session::keep_hidden(int32_t row) {
    hidden_.clear();
    if (drafter_ == nullptr) {
        return;
    }
    const float *hidden = llama_get_embeddings_nextn_ith(target_.get(), row);
    if (hidden == nullptr) {
        throw Error(GC_DECODE_FAILED, "the target's pass returned no hidden row");
    }
    hidden_.assign(hidden, hidden + llama_model_n_embd(engine_->target()));
}

void Session::set_sampling(SamplerOptions options, uint64_t seed, bool repeatable) {
    sampler_ = std::make_unique<Sampler>(*engine_, std::move(options));
    answer_begun_ = false;
    random_ = Random(seed);
    // What is drafted shows in what is drawn.
    repeatable_.reset();
    if (repeatable) {
        repeatable_.emplace(saved_schedule_, exact_, /*learns_costs=*/false);
    }
}

void Session::set_schedule(const gc_schedule_state &saved) {
    saved_schedule_ = saved;
    schedule_ = Schedule(saved_schedule_, exact_, /*learns_costs=*/true);
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

uint64_t Session::kv_hash() const {
    std::vector<uint8_t> state(llama_state_seq_get_size(target_.get(), 0));
    state.resize(llama_state_seq_get_data(target_.get(), state.data(), state.size(), 0));
    return hash_bytes(state.data(), state.size());
}

}  // namespace gc
