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

// The same for weights whose products are summed up by fours.
struct Activations32Fours {
    int8_t quanta[32];
    int32_t offsets[8];  // -128 times the sum of four quanta
    float scale;
};

// 256 activations, for superblocks.
struct Activations256 {
    int8_t quanta[256];
    int16_t sums[8];         // of 32 quanta each
    int16_t offsets[16][2];  // -32 times the sum of the 1st, 2nd, 5th, 6th ... and of the other
                             // quanta of 16
    float scale;
};

size_t activations32_size(int64_t k);
size_t activations32_fours_size(int64_t k);
size_t activations256_size(int64_t k);

// Quantizes k activations, a multiple of 32, to Q8_0 as ggml's products do.
void quantize_activations32(const float *x, int64_t k, void *activations);
void quantize_activations32_fours(const float *x, int64_t k, void *activations);

// Quantizes k activations, a multiple of 256, to Q8_K.
void quantize_activations256(const float *x, int64_t k, void *activations);

}  // namespace gc
