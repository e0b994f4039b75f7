// The C boundary: what callers pass is checked here, and no exception crosses it. Handles and
// places for results are taken on trust; nothing but our own wrapper passes them.

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "engine.h"
#include "error.h"
#include "gemmachat.h"
#include "log.h"
#include "session.h"
#include "verify.h"

struct gc_engine {
    std::shared_ptr<const gc::Engine> impl;  // shared with its sessions
};

struct gc_session {
    gc::Session impl;
};

namespace {

thread_local std::string last_error;

gc_status fail(gc_status status, const char *text) noexcept {
    try {
        last_error = text;
    } catch (...) {
        last_error.clear();
    }
    return status;
}

template <typename Body>
gc_status guarded(Body body) noexcept {
    try {
        body();
        return GC_OK;
    } catch (const gc::Error &error) {
        return fail(error.status, error.what());
    } catch (const std::bad_alloc &) {
        return fail(GC_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception &error) {
        return fail(GC_INTERNAL, error.what());
    } catch (...) {
        return fail(GC_INTERNAL, "unknown failure");
    }
}

// A cancel is answered once: whoever returns GC_CANCELLED takes it back.
template <typename Body>
gc_status guarded_call(gc_session *session, Body body) noexcept {
    const gc_status status = guarded(body);
    if (status == GC_CANCELLED) {
        session->impl.cancel().clear();
    }
    return status;
}

void require(bool condition, const char *text) {
    if (!condition) {
        throw gc::Error(GC_BAD_ARGUMENT, text);
    }
}

void check(const gc_sampling &sampling) {
    require(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0f,
            "temperature must be 0 or more");
    require(sampling.top_k >= 0, "top_k must be 0 or more");
    require(sampling.top_p > 0.0f && sampling.top_p <= 1.0f, "top_p must be in (0, 1]");
    require(sampling.min_p >= 0.0f && sampling.min_p <= 1.0f, "min_p must be in [0, 1]");
}

}  // namespace

uint32_t gc_abi_version(void) { return GC_ABI_VERSION; }

const char *gc_built_for(void) { return GC_BUILT_FOR; }

const char *gc_last_error(void) { return last_error.c_str(); }

gc_status gc_engine_load(const char *target_path, const char *drafter_path, gc_engine **engine) {
    return guarded([&] {
        require(target_path != nullptr && engine != nullptr, "a path and a place are needed");
        static std::once_flag once;
        std::call_once(once, [] {
            gc::install_log();
            llama_backend_init();
        });
        *engine = new gc_engine{std::make_shared<const gc::Engine>(target_path, drafter_path)};
    });
}

void gc_engine_free(gc_engine *engine) { delete engine; }

int32_t gc_vocab_size(const gc_engine *engine) { return engine->impl->vocab_size(); }

int32_t gc_context_length(const gc_engine *engine) {
    return llama_model_n_ctx_train(engine->impl->target());
}

const char *gc_chat_template(const gc_engine *engine) {
    return llama_model_chat_template(engine->impl->target(), nullptr);
}

int32_t gc_control_token(const gc_engine *engine, const char *spelling) {
    int32_t token = -1;
    guarded([&] {
        require(spelling != nullptr, "a spelling is needed");
        token = engine->impl->control_token(spelling);
    });
    return token;
}

gc_status gc_tokenize(const gc_engine *engine, const char *text, int32_t n_bytes, int32_t *tokens,
                      int32_t capacity, int32_t *n_tokens) {
    return guarded([&] {
        require(text != nullptr && n_bytes >= 0, "a text is needed");
        const std::vector<llama_token> ids = engine->impl->tokenize(text, n_bytes);
        std::copy_n(ids.begin(), std::min(ids.size(), static_cast<size_t>(std::max(capacity, 0))),
                    tokens);
        *n_tokens = static_cast<int32_t>(ids.size());
    });
}

gc_status gc_token_piece(const gc_engine *engine, int32_t token, char *bytes, int32_t capacity,
                         int32_t *n_bytes) {
    return guarded([&] {
        require(token >= 0 && token < engine->impl->vocab_size(),
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

gc_status gc_session_new(gc_engine *engine, const gc_session_params *params, gc_session **session) {
    return guarded([&] {
        require(engine != nullptr && params != nullptr && session != nullptr,
                "an engine is needed");
        require(params->n_ctx >= 1, "n_ctx must be 1 or more");
        require(params->n_ctx <= INT32_MAX - GC_MAX_WIDTH, "n_ctx is too large");
        require(params->n_threads >= 1 && params->n_threads <= GGML_MAX_N_THREADS,
                "n_threads is out of range");
        *session = new gc_session{gc::Session(engine->impl, *params)};
    });
}

void gc_session_free(gc_session *session) { delete session; }

gc_status gc_session_sync(gc_session *session, const int32_t *tokens, int32_t n_tokens) {
    return guarded_call(session, [&] {
        require(tokens != nullptr && n_tokens >= 1, "a prompt needs at least one token");
        session->impl.sync(tokens, n_tokens);
    });
}

gc_status gc_session_set_sampling(gc_session *session, const gc_sampling *sampling) {
    return guarded([&] {
        require(sampling != nullptr, "sampling parameters are needed");
        check(*sampling);
        session->impl.set_sampling(*sampling);
    });
}

gc_status gc_session_step(gc_session *session, int32_t n_draft, int32_t max_tokens, gc_token *out,
                          int32_t *n_out) {
    return guarded_call(session, [&] {
        require(n_draft >= -1 && n_draft <= GC_MAX_DRAFT, "n_draft is out of range");
        require(max_tokens >= 1, "max_tokens must be 1 or more");
        *n_out = session->impl.step(n_draft, max_tokens, out);
    });
}

gc_status gc_session_verify(gc_session *session, const int32_t *drafts, int32_t n_drafts,
                            int32_t max_tokens, gc_token *out, int32_t *n_out) {
    return guarded_call(session, [&] {
        require(n_drafts >= 0 && n_drafts <= GC_MAX_DRAFT, "n_drafts is out of range");
        require(drafts != nullptr || n_drafts == 0, "drafts are needed");
        require(max_tokens >= 1, "max_tokens must be 1 or more");
        *n_out = session->impl.verify(drafts, n_drafts, max_tokens, out);
    });
}

void gc_session_cancel(gc_session *session) { session->impl.cancel().request(); }

void gc_session_cancel_at_poll(gc_session *session, int64_t n) {
    session->impl.cancel().request_at_poll(n);
}

void gc_session_clear_cancel(gc_session *session) { session->impl.cancel().clear(); }

void gc_session_stats(const gc_session *session, gc_stats *stats) {
    *stats = session->impl.stats();
}

gc_status gc_session_inspect(const gc_session *session, gc_inspection *inspection) {
    return guarded([&] { *inspection = session->impl.inspect(); });
}

gc_status gc_session_probe(gc_session *session, int32_t width, float *logits) {
    return guarded_call(session, [&] { session->impl.probe(width, logits); });
}

gc_status gc_verify_rounds(const float *target_logits, const float *drafter_logits, int32_t n_draft,
                           int32_t n_vocab, const gc_sampling *sampling, int32_t n_rounds,
                           int32_t *out, int32_t *n_out) {
    return guarded([&] {
        require(n_draft >= 0 && n_draft <= GC_MAX_DRAFT, "n_draft is out of range");
        require(n_vocab >= 1, "n_vocab must be 1 or more");
        require(target_logits != nullptr && (drafter_logits != nullptr || n_draft == 0),
                "logits are needed");
        require(sampling != nullptr, "sampling parameters are needed");
        check(*sampling);
        const gc::Sampling filters{sampling->temperature, sampling->top_k, sampling->top_p,
                                   sampling->min_p};
        gc::Random random(sampling->seed);
        std::vector<gc::Draft> drafts(static_cast<size_t>(n_draft));
        std::vector<int32_t> tokens;
        for (int32_t round = 0; round < n_rounds; ++round) {
            for (int32_t i = 0; i < n_draft; ++i) {
                const float *row = drafter_logits + static_cast<size_t>(i) * n_vocab;
                gc::shape(row, n_vocab, filters, drafts[i].q);
                drafts[i].token = gc::draw(drafts[i].q, random);
            }
            gc::judge(target_logits, n_vocab, drafts, filters, random, tokens);
            std::copy(tokens.begin(), tokens.end(),
                      out + static_cast<size_t>(round) * GC_MAX_WIDTH);
            n_out[round] = static_cast<int32_t>(tokens.size());
        }
    });
}
