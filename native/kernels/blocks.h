// Blocks of weights as GGUF files hold them; scales are half-precision floats.

#pragma once

#include <cstdint>

namespace gc {

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

}  // namespace gc
