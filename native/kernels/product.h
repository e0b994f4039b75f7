// The order in which a product is computed, whatever the type of its weights.

#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.h"

namespace gc {

namespace {

// Every group holds this many rows, in so many vectors.
constexpr int kGroupRows = 16;
constexpr int kVectors = kGroupRows / Isa::kLanes;

// Some blocks of one group times the same blocks of some rows of activations.
template <typename Type>
struct Part {
    const typename Type::Block *blocks;
    int64_t n_blocks;
    const char *activations;  // of the first row
    size_t activation_size;
    float *const *out;
    int64_t place;   // of the group's results in a row of out
    bool continued;  // the results so far are there

    const typename Type::Activations *row(int i) const {
        return reinterpret_cast<const typename Type::Activations *>(
            activations + static_cast<size_t>(i) * activation_size);
    }
};

// Calls the tile for that many rows, up to kTile.
template <typename Type, int kTile>
void multiply_tile(const Part<Type> &part, int64_t rows) {
    if constexpr (kTile > 1) {
        if (rows < kTile) {
            return multiply_tile<Type, kTile - 1>(part, rows);
        }
    }
    Type::template tile<kTile>(part);
}

// All m rows, in tiles as equal as they can be: a row costs most in a tile of its own.
template <typename Type>
void multiply_rows(Part<Type> part, int64_t m) {
    for (int64_t tiles = (m + Isa::kTile - 1) / Isa::kTile; tiles > 0; --tiles) {
        const int64_t rows = (m + tiles - 1) / tiles;
        multiply_tile<Type, Isa::kTile>(part, rows);
        part.activations += static_cast<size_t>(rows) * part.activation_size;
        part.out += rows;
        m -= rows;
    }
}

// A group's blocks go through a tile after the other. With few of them at a time they stay in the
// first cache for all tiles, and memory is read steadily. So many rows of activations at a time
// stay in the second cache for all groups.
template <typename Type>
void multiply(const void *groups, int64_t k, int64_t group_count, const void *activations,
              int64_t m, float *const *out) {
    constexpr int64_t kRowsAtOnce = 128;
    const int64_t n_blocks = k / Type::kColumns;
    const size_t size = Type::activation_size(k);
    for (int64_t first = 0; first < m; first += kRowsAtOnce) {
        const int64_t rows = m - first < kRowsAtOnce ? m - first : kRowsAtOnce;
        const int64_t at_once = rows > Isa::kTile ? Type::kBlocksAtOnce : n_blocks;
        for (int64_t g = 0; g < group_count; ++g) {
            const auto *blocks = static_cast<const typename Type::Block *>(groups) + g * n_blocks;
            for (int64_t b = 0; b < n_blocks; b += at_once) {
                const char *row = static_cast<const char *>(activations) +
                                  static_cast<size_t>(first) * size +
                                  static_cast<size_t>(b) * sizeof(typename Type::Activations);
                multiply_rows(
                    Part<Type>{blocks + b, n_blocks - b < at_once ? n_blocks - b : at_once, row,
                               size, out + first, g * kGroupRows, b > 0},
                    rows);
            }
        }
    }
}

}  // namespace

}  // namespace gc
