// The part of the C boundary that concerns sessions.

#include <algorithm>
#include <cmath>

#include "boundary.h"
#include "gemmachat.h"
#include "handles.h"

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
