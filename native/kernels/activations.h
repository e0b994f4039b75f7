// Rows of activations, quantized by ggml and laid out for the kernels.

#pragma once

#include <cstddef>
#include <cstdint>

namespace gc {

// 32 activations: the value of one is scale times its quantum.
struct Activations32 {
    int8_t quanta[32];
    float scale;
    int32_t sum8;  // 8 times the sum of the quanta
};

size_t activations32_size(int64_t k);

// Quantizes k activations, a multiple of 32, to Q8_0 as ggml's products do.
void quantize_activations32(const float *x, int64_t k, void *activations);

}  // namespace gc
