#include "context.h"

#include <string>

#include "error.h"
#include "log.h"

namespace gc {

namespace {

bool poll_cancel(void *data) { return static_cast<Cancel *>(data)->poll(); }

}  // namespace

Batch::Batch(int32_t capacity, int32_t embedding_width)
    : width_(static_cast<size_t>(embedding_width)),
      tokens_(static_cast<size_t>(capacity)),
      embeddings_(tokens_.size() * width_),
      positions_(tokens_.size()),
      n_seq_ids_(tokens_.size(), 1),
      seq_ids_(tokens_.size(), &seq_id_),
      wants_logits_(tokens_.size()) {
    batch_.token = tokens_.data();
    batch_.embd = width_ > 0 ? embeddings_.data() : nullptr;
    batch_.pos = positions_.data();
    batch_.n_seq_id = n_seq_ids_.data();
    batch_.seq_id = seq_ids_.data();
    batch_.logits = wants_logits_.data();
}

void Batch::add(llama_token token, llama_pos position, bool wants_logits) {
    const auto row = static_cast<size_t>(batch_.n_tokens++);
    tokens_[row] = token;
    positions_[row] = position;
    wants_logits_[row] = wants_logits ? 1 : 0;
}

void Batch::decode(llama_context *context) {
    clear_log();
    switch (llama_decode(context, batch_)) {
        case 0:
            return;
        case 1:
            throw Error(GC_CONTEXT_FULL, "the KV cache has no room for the pass");
        case 2:
            throw Error(GC_CANCELLED, "cancelled");
        case -1:
            throw Error(GC_DECODE_FAILED, "llama.cpp refused the pass" + logged_reason());
        case -2:
            throw Error(GC_OUT_OF_MEMORY,
                        "llama.cpp ran out of memory in a pass" + logged_reason());
        default:
            throw Error(GC_DECODE_FAILED, "llama.cpp failed in a pass" + logged_reason());
    }
}

ContextPtr make_context(llama_model *model, const ContextOptions &options,
                        llama_context *ctx_other) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = options.n_cells;
    params.n_batch = options.n_batch;
    params.n_ubatch = options.n_batch;
    params.n_outputs_max = options.n_outputs;
    params.n_threads = options.n_threads;
    params.n_threads_batch = options.n_threads;
    params.type_k = options.kv_type;
    params.type_v = options.kv_type;
    params.flash_attn_type = options.flash_attention;
    params.swa_full = options.full_swa;
    params.no_perf = true;
    params.abort_callback = poll_cancel;
    params.abort_callback_data = options.cancel;
    if (options.exit != nullptr) {
        params.cb_eval = GraphExit::on_node;
        params.cb_eval_user_data = options.exit;
    }
    if (ctx_other != nullptr) {
        params.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
        params.ctx_other = ctx_other;
    }
    clear_log();
    ContextPtr context(llama_init_from_model(model, params));
    if (!context) {
        const bool no_memory = logged_out_of_memory();
        const char *problem = no_memory ? "there is not enough memory for a context of "
                                        : "llama.cpp cannot create a context of ";
        throw Error(no_memory ? GC_OUT_OF_MEMORY : GC_INTERNAL,
                    problem + std::to_string(options.n_cells) + " tokens" + logged_reason());
    }
    return context;
}

}  // namespace gc
