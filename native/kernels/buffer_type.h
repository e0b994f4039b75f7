// A buffer type of ggml's CPU backend for weights that lie in a layout of our own.
//
// llama.cpp asks each type of the CPU device in turn whether it takes a weight tensor, writes the
// file's bytes into a buffer of the first that does, and ggml then asks the type to compute the
// operations on it. What this one does not take stays ggml's.

#pragma once

#include <cstdint>

#include "ggml_internal.h"
#include "kernel.h"

namespace gc {

// The kernel of each type of weights; null: ggml's own.
struct KernelTable {
    const Kernel *of[GGML_TYPE_COUNT] = {};
};

// The buffer type, made at the first call. The barrier is ggml's.
ggml_backend_buffer_type_t packed_buffer_type(Barrier *barrier);
// From now on it takes these types of weights.
void set_kernels(const KernelTable &kernels);

// While it lives, models that this thread loads have their weights packed; without it, none.
class Packing {
public:
    // left_out: a tensor that is not packed, null: none.
    explicit Packing(const char *left_out);
    ~Packing();
    Packing(const Packing &) = delete;
    Packing &operator=(const Packing &) = delete;

    // Bytes of the files' weights that were packed.
    int64_t n_bytes() const { return n_bytes_; }

    bool wants(const ggml_tensor &weights) const;
    void note(const void *source, size_t size);

private:
    const char *left_out_;
    int64_t n_bytes_ = 0;
};

}  // namespace gc
