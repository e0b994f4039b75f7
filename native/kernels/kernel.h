// Products of quantized weight matrices with rows of activations: the interface to what runs them.
//
// A kernel works on groups: consecutive rows of a weight matrix, interleaved so that one vector
// holds the same columns of all of them. Sizes are in bytes unless said otherwise. Groups and
// activations may lie anywhere, but are read fastest at multiples of 64.

#pragma once

#include <cstddef>
#include <cstdint>

#include "ggml.h"

namespace gc {

struct Kernel {
    const char *name;          // such as "q4_0 avx2"
    ggml_type type;            // of the weights
    int32_t group_rows;        // weight rows in a group
    int64_t columns_multiple;  // the number of columns, k below, must be a multiple of it

    size_t (*group_size)(int64_t k);

    // Packs group_rows consecutive rows of k weights, as files hold them, into one group.
    void (*pack)(const void *rows, int64_t k, void *group);

    // The size of one quantized row of activations, a multiple of 64.
    size_t (*activation_size)(int64_t k);

    // Quantizes a row of k activations as ggml does for this type of weights.
    void (*quantize)(const float *x, int64_t k, void *activation);

    // Writes the products of all rows of group_count groups with m rows of activations, which are
    // activation_size(k) apart: out[i][g * group_rows + r] is row r of group g times activation i.
    // A product does not depend on m, on the place of its row or on the other rows.
    void (*multiply)(const void *groups, int64_t k, int64_t group_count, const void *activations,
                     int64_t m, float *const *out);
};

// The kernel for weights of that type on this processor; null where ggml's own is as fast. Measured
// against ggml on AVX2 alone: that AVX-VNNI and AVX-512 gain more is expected, not known.
const Kernel *find_kernel(ggml_type type);

// The kernel of one instruction set, "portable" (8 lanes), "portable16" (16 lanes), "avx2",
// "avxvnni" or "avx512vnni"; null if there is none or this processor cannot run it.
const Kernel *find_kernel(ggml_type type, const char *instructions);

}  // namespace gc
