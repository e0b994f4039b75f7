// The C boundary: what callers pass is checked here, and no exception crosses it. Handles and
// places for results are taken on trust; nothing but our own wrapper passes them.

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "boundary.h"
#include "gemmachat.h"
#include "grammar.h"
#include "handles.h"
#include "log.h"

namespace {

// A cancel is answered once: whoever returns GC_CANCELLED takes it back.
template <typename Body>
gc_status guarded_call(gc_session *session, Body body) noexcept {
    const gc_status status = gc::guarded(body);
    if (status == GC_CANCELLED) {
        session->impl.cancel().clear();
    }
    return status;
}

}  // namespace

gc::SamplerOptions gc::sampler_options(const gc_sampling &sampling, int32_t n_vocab) {
    gc::SamplerOptions options;
    options.shaping = gc::shaping(sampling);
    for (int32_t i = 0; i < sampling.n_bias; ++i) {
        const gc_logit_bias &bias = sampling.bias[i];
        gc::require(bias.token >= 0 && bias.token < n_vocab, "a bias is outside the vocabulary");
        gc::require(bias.value < INFINITY, "a bias must be a number or -infinity");
        options.bias.push_back({bias.token, bias.value});
    }
    options.repeat_penalty = sampling.repeat_penalty;
    options.repeat_window = sampling.repeat_window;
    options.presence_penalty = sampling.presence_penalty;
    options.frequency_penalty = sampling.frequency_penalty;
    options.min_tokens = sampling.min_tokens;
    options.n_logprobs = sampling.n_logprobs;
    if (sampling.grammar != nullptr) {
        options.grammar = {sampling.grammar, sampling.thought_open, sampling.thought_close};
    }
    return options;
}

uint32_t gc_abi_version(void) { return GC_ABI_VERSION; }

const char *gc_built_for(void) { return GC_BUILT_FOR; }

gc_status gc_engine_load(const char *target_path, const char *drafter_path, gc_engine **engine) {
    return gc::guarded([&] {
        gc::require(target_path != nullptr && engine != nullptr, "a path and a place are needed");
        static std::once_flag once;
        std::call_once(once, [] {
            gc::install_log();
            llama_backend_init();
        });
        *engine = new gc_engine{std::make_shared<gc::Engine>(target_path, drafter_path)};
    });
}

void gc_engine_free(gc_engine *engine) { delete engine; }

int32_t gc_vocab_size(const gc_engine *engine) { return engine->impl->vocab_size(); }

int32_t gc_context_length(const gc_engine *engine) {
    return llama_model_n_ctx_train(engine->impl->target());
}

int32_t gc_layer_count(const gc_engine *engine) { return engine->impl->n_layers(); }

int32_t gc_first_skipped_layer(const gc_engine *engine) {
    return engine->impl->first_skipped_layer();
}

const char *gc_chat_template(const gc_engine *engine) {
    return llama_model_chat_template(engine->impl->target(), nullptr);
}

int32_t gc_control_token(const gc_engine *engine, const char *spelling) {
    int32_t token = -1;
    gc::guarded([&] {
        gc::require(spelling != nullptr, "a spelling is needed");
        token = engine->impl->control_token(spelling);
    });
    return token;
}

gc_status gc_tokenize(const gc_engine *engine, const char *text, int32_t n_bytes, int32_t *tokens,
                      int32_t capacity, int32_t *n_tokens) {
    return gc::guarded([&] {
        gc::require(text != nullptr && n_bytes >= 0, "a text is needed");
        const std::vector<llama_token> ids = engine->impl->tokenize(text, n_bytes);
        std::copy_n(ids.begin(), std::min(ids.size(), static_cast<size_t>(std::max(capacity, 0))),
                    tokens);
        *n_tokens = static_cast<int32_t>(ids.size());
    });
}

gc_status gc_token_piece(const gc_engine *engine, int32_t token, char *bytes, int32_t capacity,
                         int32_t *n_bytes) {
    return gc::guarded([&] {
        gc::require(token >= 0 && token < engine->impl->vocab_size(),
                    "the token is not in the vocabulary");
        const std::string piece = engine->impl->piece(token);
        std::copy_n(piece.begin(),
                    std::min(piece.size(), static_cast<size_t>(std::max(capacity, 0))), bytes);
        *n_bytes = static_cast<int32_t>(piece.size());
    });
}

bool gc_token_is_end(const gc_engine *engine, int32_t token) {
    return token >= 0 && token < engine->impl->vocab_size() && engine->impl->is_end(token);
}

gc_status gc_grammar_allowed(const gc_engine *engine, const char *grammar, const int32_t *tokens,
                             int32_t n_tokens, int32_t *ids, int32_t capacity, int32_t *n_out) {
    return gc::guarded([&] {
        gc::require(grammar != nullptr, "a grammar is needed");
        gc::Grammar followed(*engine->impl, {grammar, -1, -1});
        for (int32_t i = 0; i < n_tokens; ++i) {
            std::vector<int32_t> id = {tokens[i]};
            gc::require(tokens[i] >= 0 && tokens[i] < engine->impl->vocab_size(),
                        "a token is outside the vocabulary");
            followed.keep_allowed(id);
            gc::require(!id.empty(), "the tokens do not follow the grammar");
            followed.commit(tokens[i]);
        }
        const std::vector<int32_t> allowed = followed.allowed();
        *n_out = static_cast<int32_t>(allowed.size());
        std::copy_n(allowed.begin(), std::min(*n_out, std::max(capacity, 0)), ids);
    });
}

gc_status gc_grammar_walk(const gc_engine *engine, const char *grammar, uint64_t seed,
                          int32_t max_tokens, int32_t *tokens, int32_t *n_tokens) {
    return gc::guarded([&] {
        gc::require(grammar != nullptr, "a grammar is needed");
        gc::Random random(seed);
        const std::vector<int32_t> walked =
            gc::walk(*engine->impl, grammar, random, std::max(max_tokens, 0));
        std::copy(walked.begin(), walked.end(), tokens);
        *n_tokens = static_cast<int32_t>(walked.size());
    });
}

gc_status gc_session_new(gc_engine *engine, const gc_session_params *params, gc_session **session) {
    return gc::guarded([&] {
        gc::require(engine != nullptr && params != nullptr && session != nullptr,
                    "an engine is needed");
        gc::require(params->n_ctx >= 1, "n_ctx must be 1 or more");
        gc::require(params->n_ctx <= INT32_MAX - GC_MAX_WIDTH, "n_ctx is too large");
        gc::require(params->n_threads >= 1 && params->n_threads <= GGML_MAX_N_THREADS,
                    "n_threads is out of range");
        gc::require(params->kv_type == GC_KV_F16 || params->kv_type == GC_KV_Q8_0,
                    "kv_type is unknown");
        gc::require(
            params->flash_attention >= GC_FLASH_AUTO && params->flash_attention <= GC_FLASH_ON,
            "flash_attention is unknown");
        gc::require(params->kv_type == GC_KV_F16 || params->flash_attention != GC_FLASH_OFF,
                    "keys and values as Q8_0 need flash attention");
        *session = new gc_session{gc::Session(engine->impl, *params)};
    });
}

void gc_session_free(gc_session *session) { delete session; }

gc_status gc_session_sync(gc_session *session, const int32_t *tokens, int32_t n_tokens) {
    return guarded_call(session, [&] {
        gc::require(tokens != nullptr && n_tokens >= 1, "a prompt needs at least one token");
        session->impl.sync(tokens, n_tokens);
    });
}

gc_status gc_session_set_sampling(gc_session *session, const gc_sampling *sampling) {
    return gc::guarded([&] {
        gc::require(sampling != nullptr, "sampling parameters are needed");
        gc::check(*sampling);
        session->impl.set_sampling(gc::sampler_options(*sampling, session->impl.vocab_size()),
                                   sampling->seed, sampling->repeatable);
    });
}

gc_status gc_session_set_schedule(gc_session *session, const gc_schedule_state *saved) {
    return gc::guarded([&] {
        gc::require(saved != nullptr, "a state is needed");
        gc::check(*saved);
        session->impl.set_schedule(*saved);
    });
}

void gc_session_schedule(const gc_session *session, gc_schedule_state *state) {
    *state = session->impl.schedule();
}

gc_status gc_session_step(gc_session *session, int32_t n_draft, int32_t max_tokens, gc_token *out,
                          int32_t *n_out) {
    return guarded_call(session, [&] {
        gc::require(n_draft >= -1 && n_draft <= GC_MAX_DRAFT, "n_draft is out of range");
        gc::require(max_tokens >= 1, "max_tokens must be 1 or more");
        *n_out = session->impl.step(n_draft, max_tokens, out);
    });
}

gc_status gc_session_verify(gc_session *session, const int32_t *drafts, int32_t n_drafts,
                            int32_t max_tokens, gc_token *out, int32_t *n_out) {
    return guarded_call(session, [&] {
        gc::require(n_drafts >= 0 && n_drafts <= GC_MAX_DRAFT, "n_drafts is out of range");
        gc::require(drafts != nullptr || n_drafts == 0, "drafts are needed");
        gc::require(max_tokens >= 1, "max_tokens must be 1 or more");
        *n_out = session->impl.verify(drafts, n_drafts, max_tokens, out);
    });
}

void gc_session_cancel(gc_session *session) { session->impl.cancel().request(); }

gc_status gc_session_set_synthetic_acceptance(gc_session *session, double acceptance) {
    return gc::guarded([&] {
        gc::require(acceptance >= 0.0 && acceptance <= 1.0, "a probability is out of range");
        session->impl.set_synthetic_acceptance(acceptance);
    });
}

void gc_session_cancel_at_poll(gc_session *session, int64_t n) {
    session->impl.cancel().request_at_poll(n);
}

void gc_session_clear_cancel(gc_session *session) { session->impl.cancel().clear(); }

gc_status gc_session_logprobs(const gc_session *session, int32_t index, gc_logprob *out,
                              int32_t *n_raw, int32_t *n_final) {
    return gc::guarded([&] {
        const std::vector<gc::Logprobs> &kept = session->impl.logprobs();
        gc::require(index >= 0 && static_cast<size_t>(index) < kept.size(),
                    "the last round has no log-probabilities of this token");
        const gc::Logprobs &of = kept[static_cast<size_t>(index)];
        *out++ = of.token;
        out = std::copy(of.raw.begin(), of.raw.end(), out);
        std::copy(of.final.begin(), of.final.end(), out);
        *n_raw = static_cast<int32_t>(of.raw.size());
        *n_final = static_cast<int32_t>(of.final.size());
    });
}

void gc_session_stats(const gc_session *session, gc_stats *stats) {
    *stats = session->impl.stats();
}

gc_status gc_session_inspect(const gc_session *session, gc_inspection *inspection) {
    return gc::guarded([&] { *inspection = session->impl.inspect(); });
}

gc_status gc_session_kv_hash(const gc_session *session, uint64_t *hash) {
    return gc::guarded([&] { *hash = session->impl.kv_hash(); });
}

gc_status gc_node_rows(const gc_engine *engine, const int32_t *tokens, int32_t n_tokens,
                       const char *node, float *rows, int64_t n_floats, bool *found) {
    return gc::guarded([&] {
        gc::require(tokens != nullptr && n_tokens >= 1, "tokens are needed");
        gc::require(node != nullptr && rows != nullptr && n_floats >= 1, "a node is needed");
        gc::GraphExit exit(node);
        gc::Cancel cancel;
        gc::ContextOptions options = {};
        options.n_cells = options.n_batch = static_cast<uint32_t>(n_tokens);
        options.n_outputs = 1;
        options.n_threads = 1;
        options.kv_type = GGML_TYPE_F16;
        options.flash_attention = LLAMA_FLASH_ATTN_TYPE_AUTO;
        options.cancel = &cancel;
        options.exit = &exit;
        const gc::ContextPtr context =
            gc::make_context(engine->impl->target(), options, /*ctx_other=*/nullptr);
        gc::Batch batch(n_tokens, 0);
        for (int32_t i = 0; i < n_tokens; ++i) {
            batch.add(tokens[i], i, i == n_tokens - 1);
        }
        const gc::GraphExit::Armed armed(exit, rows, static_cast<size_t>(n_floats));
        batch.decode(context.get());
        *found = exit.reached();
    });
}

gc_status gc_session_distribution(gc_session *session, const int32_t *path, int32_t n_path,
                                  int32_t *ids, double *probabilities, int32_t capacity,
                                  int32_t *n_out) {
    return guarded_call(session, [&] {
        gc::require(n_path >= 0 && n_path <= GC_MAX_DRAFT && (path != nullptr || n_path == 0),
                    "the path is too long");
        gc::Distribution p;
        session->impl.distribution(path, n_path, p);
        *n_out = static_cast<int32_t>(p.size());
        for (int32_t i = 0; i < std::min(*n_out, capacity); ++i) {
            ids[i] = p[i].id;
            probabilities[i] = p[i].p;
        }
    });
}

gc_status gc_session_probe(gc_session *session, int32_t width, float *logits) {
    return guarded_call(session, [&] { session->impl.probe(width, logits); });
}
