// Whether a kernel computes on this processor what ggml computes.

#pragma once

#include "ggml-backend.h"
#include "kernel.h"

namespace gc {

// Multiplies known matrices with one to six known rows, and with rows that choose experts, in a
// graph of ggml's: once with the weights in a buffer of the kernel's type and once in ggml's own,
// and compares. Takes a few milliseconds. Throws std::bad_alloc, which says nothing of the kernel.
bool agrees_with_ggml(const Kernel &kernel, ggml_backend_buffer_type_t packed);

}  // namespace gc
