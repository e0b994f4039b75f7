// Products of packed weights with activations, computed inside ggml's threads.
//
// All threads of a computation call the same function. Activations are quantized once and into
// ggml's work space; then the threads take chunks of the weights' groups until none is left, so
// that a thread that is held up does not hold up the others.

#pragma once

#include <cstddef>

#include "ggml_internal.h"
#include "kernel.h"

namespace gc {

// What the groups of a weight matrix, or of all experts' matrices, take.
size_t packed_size(const Kernel &kernel, const ggml_tensor &weights);

// Whether an operation is MUL_MAT or MUL_MAT_ID with weights that the kernel can hold whole, and
// activations that it can read.
bool can_multiply(const Kernel &kernel, const ggml_tensor &op);

// The work space that multiply needs for an operation that can_multiply.
size_t work_size(const ggml_tensor &op, const Kernel &kernel);

// Computes the operation's tensor. The weights are packed.
void multiply(const ggml_compute_params &params, const ggml_tensor &op, const Kernel &kernel,
              Barrier *barrier);

}  // namespace gc
