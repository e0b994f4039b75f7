// Whether a kernel computes on this processor what ggml computes.

#pragma once

#include "ggml-backend.h"
#include "kernel.h"

namespace gc {

// Multiplies a known matrix with known rows in a graph of ggml's, once with the weights in a buffer
// of the kernel's type and once in ggml's own, and compares. Takes about a millisecond.
bool agrees_with_ggml(const Kernel &kernel, ggml_backend_buffer_type_t packed);

}  // namespace gc
