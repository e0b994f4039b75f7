// The C boundary: what callers pass is checked here, and no exception crosses it. Handles and
// places for results are taken on trust; nothing but our own wrapper passes them.
//
// This part concerns engines.

#include <algorithm>
#include <memory>
#include <mutex>

#include "boundary.h"
#include "gemmachat.h"
#include "grammar.h"
#include "handles.h"
#include "kernels/plugin.h"
#include "log.h"

uint32_t gc_abi_version(void) { return GC_ABI_VERSION; }

const char *gc_built_for(void) { return GC_BUILT_FOR; }

bool gc_kernels_install(const char *instructions) {
    bool installed = false;
    gc::guarded([&] { installed = gc::plug_in(instructions).installed; });
    return installed;
}

bool gc_kernels_installed(void) {
    bool installed = false;
    gc::guarded([&] { installed = gc::plugin().installed; });
    return installed;
}

const char *gc_kernels_status(void) {
    const char *status = gc_last_error();
    gc::guarded([&] { status = gc::plugin().status.c_str(); });
    return status;
}

gc_status gc_engine_load(const char *target_path, const char *drafter_path, gc_kernels kernels,
                         gc_engine **engine) {
    return gc::guarded([&] {
        gc::require(target_path != nullptr && engine != nullptr, "a path and a place are needed");
        static std::once_flag once;
        std::call_once(once, [] {
            gc::install_log();
            llama_backend_init();
        });
        *engine = new gc_engine{
            std::make_shared<gc::Engine>(target_path, drafter_path, kernels == GC_KERNELS_AUTO)};
    });
}

void gc_engine_free(gc_engine *engine) { delete engine; }

int64_t gc_packed_bytes(const gc_engine *engine) { return engine->impl->packed_bytes(); }

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

void *gc_target_model(const gc_engine *engine) { return engine->impl->target(); }
