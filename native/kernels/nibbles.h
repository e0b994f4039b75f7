// 32 columns of a group's rows in four bits each, times activations.

#pragma once

#include "tiles.h"

namespace gc {

namespace {

// Four columns of each row after the other: the low bits of bytes[j] are columns 4 j ..., the high
// ones columns 4 j + 16 ...
struct Nibbles {
    uint8_t bytes[4][kGroupRows * 4];
};

// Puts a row's 16 bytes, column i in the low and i + 16 in the high bits of byte i, into its place.
inline void pack_nibbles(const uint8_t *bytes, int row, Nibbles &nibbles) {
    for (int j = 0; j < 4; ++j) {
        __builtin_memcpy(nibbles.bytes[j] + row * 4, bytes + j * 4, 4);
    }
}

// The sums of products of unsigned weights with 32 activations of each row of a tile. Called from
// two types, GCC would not inline it, and sums would pass through memory.
template <int kTile>
__attribute__((always_inline)) inline void multiply_nibbles(
    const Nibbles &nibbles, const int8_t *const (&activations)[kTile],
    Isa::Sums (&sums)[kTile][kVectors]) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        Isa::Bytes both[kVectors], weights[kVectors];
        for (int v = 0; v < kVectors; ++v) {
            both[v] = Isa::load(nibbles.bytes[j] + v * Isa::kLanes * 4);
            weights[v] = Isa::bits<0>(both[v], 15);
        }
        for (int i = 0; i < kTile; ++i) {
            const Isa::Bytes taken = Isa::four(activations[i] + j * 4);
            for (int v = 0; v < kVectors; ++v) {
                sums[i][v] = j == 0 ? Isa::products(weights[v], taken)
                                    : Isa::add_products(sums[i][v], weights[v], taken);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            weights[v] = Isa::bits<4>(both[v], 15);
        }
        for (int i = 0; i < kTile; ++i) {
            const Isa::Bytes taken = Isa::four(activations[i] + j * 4 + 16);
            for (int v = 0; v < kVectors; ++v) {
                sums[i][v] = Isa::add_products(sums[i][v], weights[v], taken);
            }
        }
    }
}

}  // namespace

}  // namespace gc
