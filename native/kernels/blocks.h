// Blocks of weights as GGUF files hold them; scales are half-precision floats.

#pragma once

#include <cstdint>

namespace gc {

// IQ4_NL has the same layout.
struct BlockQ4_0 {
    static constexpr int64_t kColumns = 32;

    uint16_t scale;
    uint8_t quanta[16];  // byte i: column i in the low four bits, column i + 16 in the high; 8 is 0
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ8_0 {
    static constexpr int64_t kColumns = 32;

    uint16_t scale;
    int8_t quanta[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// Superblocks of 256 weights: sub-blocks of 32 have scales and minima of six bits, in the order of
// ggml's block_q4_K.
struct BlockQ4_K {
    static constexpr int64_t kColumns = 256;

    uint16_t scale, min;
    uint8_t scales[12];
    uint8_t quanta[128];  // 32 bytes each for two sub-blocks: the low four bits, then the high
};
static_assert(sizeof(BlockQ4_K) == 144);

// The same with five bits: bit s of byte i of high is the fifth of column i of sub-block s.
struct BlockQ5_K {
    static constexpr int64_t kColumns = 256;

    uint16_t scale, min;
    uint8_t scales[12];
    uint8_t high[32];
    uint8_t low[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// Sub-blocks of 16 have scales of eight bits; of each half of the superblock, byte i holds the low
// bits of columns i and i + 64, and byte i of high the high bits of columns i, i + 32, i + 64, i
// + 96.
struct BlockQ6_K {
    static constexpr int64_t kColumns = 256;

    uint8_t low[2][64];
    uint8_t high[2][32];
    int8_t scales[16];
    uint16_t scale;
};
static_assert(sizeof(BlockQ6_K) == 210);

// Activations for these.
struct BlockQ8_K {
    static constexpr int64_t kColumns = 256;

    float scale;
    int8_t quanta[256];
    int16_t sums[16];
};
static_assert(sizeof(BlockQ8_K) == 292);

}  // namespace gc
