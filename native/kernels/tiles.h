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

// One group times some rows of activations.
template <typename Type>
struct Part {
    const typename Type::Block *blocks;
    int64_t n_blocks;
    const char *activations;  // of the first row
    size_t activation_size;
    float *const *out;
    int64_t place;         // of the group's results in a row of out
    const char *next;      // what will be needed next, fetched meanwhile,
    int64_t bytes_a_step;  // so much of it with every step; a block has Type::kSteps

    const typename Type::Activations *row(int i) const {
        return reinterpret_cast<const typename Type::Activations *>(
            activations + static_cast<size_t>(i) * activation_size);
    }

    void fetch(int64_t step) const {
        const char *fetched = next + step * bytes_a_step;
        for (int64_t line = 0; line < bytes_a_step; line += 64) {
            __builtin_prefetch(fetched + line);
        }
    }
};

// A vector of floats for each vector of a group and each row of a tile.
template <int kTile>
using Results = Isa::Floats[kTile][kVectors];

template <int kTile>
void clear(Results<kTile> &results) {
    for (int i = 0; i < kTile; ++i) {
        for (int v = 0; v < kVectors; ++v) {
            results[i][v] = Isa::no_floats();
        }
    }
}

template <typename Type, int kTile>
void store(const Part<Type> &part, const Results<kTile> &results) {
    for (int i = 0; i < kTile; ++i) {
        for (int v = 0; v < kVectors; ++v) {
            Isa::store(part.out[i] + part.place + v * Isa::kLanes, results[i][v]);
        }
    }
}

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

// All m rows, in tiles as equal as they can be: a row costs most in a tile of its own. Few tiles
// leave memory idle unless each fetches its share of the group that follows.
template <typename Type>
void multiply_rows(Part<Type> part, int64_t m) {
    constexpr int64_t kFew = 4;
    int64_t tiles = (m + Type::kTile - 1) / Type::kTile;
    if (tiles <= kFew) {
        part.next = reinterpret_cast<const char *>(part.blocks + part.n_blocks);
        part.bytes_a_step =
            static_cast<int64_t>(sizeof(typename Type::Block)) / Type::kSteps / tiles;
    }
    for (; tiles > 0; --tiles) {
        const int64_t rows = (m + tiles - 1) / tiles;
        multiply_tile<Type, Type::kTile>(part, rows);
        part.activations += static_cast<size_t>(rows) * part.activation_size;
        part.out += rows;
        part.next += part.n_blocks * Type::kSteps * part.bytes_a_step;
        m -= rows;
    }
}

// As many rows of activations at a time as stay in the second cache while all groups pass.
template <typename Type>
void multiply(const void *groups, int64_t k, int64_t group_count, const void *activations,
              int64_t m, float *const *out) {
    constexpr int64_t kCache = 256 << 10, kFewest = 8 * Type::kTile, kMost = 128;
    Part<Type> part{};
    part.n_blocks = k / Type::kColumns;
    part.activation_size = Type::activation_size(k);
    part.activations = static_cast<const char *>(activations);
    part.out = out;
    const int64_t fit = kCache / static_cast<int64_t>(part.activation_size);
    const int64_t at_once = fit > kMost ? kMost : fit < kFewest ? kFewest : fit;
    for (; m > 0; m -= at_once) {
        const int64_t rows = m < at_once ? m : at_once;
        part.blocks = static_cast<const typename Type::Block *>(groups);
        part.place = 0;
        for (int64_t g = 0; g < group_count; ++g) {
            multiply_rows(part, rows);
            part.blocks += part.n_blocks;
            part.place += kGroupRows;
        }
        part.activations += static_cast<size_t>(rows) * part.activation_size;
        part.out += rows;
    }
}

}  // namespace

}  // namespace gc
