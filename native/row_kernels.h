// The loops that touch every logit of a row, compiled once per instruction set.
//
// The variants are the same source with the same sixteen lanes, added up in the same order and
// without fused multiply-adds, so that they return the same bits on every processor.

#pragma once

#include <cstdint>

namespace gc {

// Rows are read in blocks of this many logits.
constexpr int32_t kBlock = 64;

struct RowKernels {
    const char *name;

    // Writes the largest logit of each block; false if there is a NaN among the logits.
    bool (*scan)(const float *logits, int32_t n_blocks, float *largest);

    // Sums the weights exp((logit - max) * scale); writes them too unless weights is null. max is
    // the largest logit, scale at most 1e38. A weight's relative error is about 1e-7 for every
    // unit of its argument, and the sum's below 1e-7; weights below e^-87 are 0.
    double (*weigh)(const float *logits, int32_t n_blocks, float max, float scale, float *weights);
};

// The variant of that name, null if there is none or this processor cannot run it.
const RowKernels *find_row_kernels(const char *name);

// The widest variant that this processor runs.
const RowKernels &best_row_kernels();

}  // namespace gc
