// RAII for llama.cpp's contexts and batches, and its return codes as errors.

#pragma once

#include <memory>
#include <vector>

#include "cancel.h"
#include "llama.h"

namespace gc {

struct ContextDeleter {
    void operator()(llama_context *context) const { llama_free(context); }
};
using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;

// A batch of one sequence whose arrays are ours.
class Batch {
public:
    // embedding_width > 0 adds one embedding row to every token.
    Batch(int32_t capacity, int32_t embedding_width);

    void clear() { batch_.n_tokens = 0; }
    void add(llama_token token, llama_pos position, bool wants_logits);
    float *embedding(int32_t row) { return &embeddings_[static_cast<size_t>(row) * width_]; }

    // Runs the batch. Throws Error: GC_CANCELLED when the abort callback stopped it, else
    // GC_DECODE_FAILED with llama.cpp's own words.
    void decode(llama_context *context);

private:
    size_t width_;
    std::vector<llama_token> tokens_;
    std::vector<float> embeddings_;
    std::vector<llama_pos> positions_;
    std::vector<int32_t> n_seq_ids_;
    std::vector<llama_seq_id *> seq_ids_;
    std::vector<int8_t> wants_logits_;
    llama_seq_id seq_id_ = 0;
    llama_batch batch_ = {};
};

// A context on a model; ctx_other is null for a target, the target's context for a drafter.
// Throws Error: GC_OUT_OF_MEMORY when llama.cpp could not allocate, else GC_INTERNAL.
struct ContextOptions {
    uint32_t n_cells;    // KV cells
    uint32_t n_batch;    // most tokens in a pass
    uint32_t n_outputs;  // most rows of logits in a pass
    int32_t n_threads;
    bool full_swa;   // sliding layers keep every position
    Cancel *cancel;  // stops a pass
    // Sees the nodes of a pass and may stop it at one; null: nobody does.
    ggml_backend_sched_eval_callback cb_eval = nullptr;
    void *cb_eval_user_data = nullptr;
};
ContextPtr make_context(llama_model *model, const ContextOptions &options,
                        llama_context *ctx_other);

}  // namespace gc
