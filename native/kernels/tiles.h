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
    int64_t place;          // of the group's results in a row of out
    bool continued;         // the results so far are there
    const char *next;       // what will be needed next, fetched meanwhile,
    int64_t bytes_a_block;  // so much of it with every block

    const typename Type::Activations *row(int i) const {
        return reinterpret_cast<const typename Type::Activations *>(
            activations + static_cast<size_t>(i) * activation_size);
    }

    void fetch(int64_t block) const {
        const char *fetched = next + block * bytes_a_block;
        for (int64_t line = 0; line < bytes_a_block; line += 64) {
            __builtin_prefetch(fetched + line);
        }
    }
};

// The results of a part so far, for each row of a tile.
template <int kTile>
using Results = Isa::Floats[kTile][kVectors];

template <typename Type, int kTile>
void begin(const Part<Type> &part, Results<kTile> &results) {
    for (int i = 0; i < kTile; ++i) {
        for (int v = 0; v < kVectors; ++v) {
            results[i][v] = part.continued ? Isa::load(part.out[i] + part.place + v * Isa::kLanes)
                                           : Isa::no_floats();
        }
    }
}

template <typename Type, int kTile>
void end(const Part<Type> &part, const Results<kTile> &results) {
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
// leave memory idle unless each fetches its share of the blocks that follow.
template <typename Type>
void multiply_rows(Part<Type> part, int64_t m) {
    constexpr int64_t kFew = 4;
    int64_t tiles = (m + Type::kTile - 1) / Type::kTile;
    if (tiles <= kFew) {
        part.next = reinterpret_cast<const char *>(part.blocks + part.n_blocks);
        part.bytes_a_block = static_cast<int64_t>(sizeof(typename Type::Block)) / tiles;
    }
    for (; tiles > 0; --tiles) {
        const int64_t rows = (m + tiles - 1) / tiles;
        multiply_tile<Type, Type::kTile>(part, rows);
        part.activations += static_cast<size_t>(rows) * part.activation_size;
        part.out += rows;
        part.next += part.n_blocks * part.bytes_a_block;
        m -= rows;
    }
}

// Blocks first ... last - 1 of each group times m rows. Few blocks at a time stay in the first
// cache for all tiles.
template <typename Type>
void multiply_blocks(const void *groups, int64_t k, int64_t group_count, int64_t first,
                     int64_t last, const char *activations, int64_t m, float *const *out) {
    for (int64_t g = 0; g < group_count; ++g) {
        const auto *blocks =
            static_cast<const typename Type::Block *>(groups) + g * (k / Type::kColumns);
        for (int64_t b = first; b < last; b += Type::kBlocksAtOnce) {
            Part<Type> part{};
            part.blocks = blocks + b;
            part.n_blocks = last - b < Type::kBlocksAtOnce ? last - b : Type::kBlocksAtOnce;
            part.activations =
                activations + static_cast<size_t>(b) * sizeof(typename Type::Activations);
            part.activation_size = Type::activation_size(k);
            part.out = out;
            part.place = g * kGroupRows;
            part.continued = b > 0;
            multiply_rows(part, m);
        }
    }
}

// As much of some rows of activations at a time as stays in the second cache for all groups.
template <typename Type>
void multiply(const void *groups, int64_t k, int64_t group_count, const void *activations,
              int64_t m, float *const *out) {
    constexpr int64_t kRowsAtOnce = 128;
    constexpr int64_t kCache = 256 << 10;
    const auto *rows = static_cast<const char *>(activations);
    for (; m > 0; m -= kRowsAtOnce) {
        const int64_t count = m < kRowsAtOnce ? m : kRowsAtOnce;
        const int64_t n_blocks = k / Type::kColumns;
        const auto block_size = static_cast<int64_t>(sizeof(typename Type::Activations)) * count;
        const int64_t parts = n_blocks / Type::kBlocksAtOnce;
        const int64_t fit = kCache / (block_size * Type::kBlocksAtOnce);
        const int64_t at_once = (fit < 1 ? 1 : fit > parts ? parts + 1 : fit) * Type::kBlocksAtOnce;
        for (int64_t b = 0; b < n_blocks; b += at_once) {
            const int64_t end = n_blocks - b < at_once ? n_blocks : b + at_once;
            multiply_blocks<Type>(groups, k, group_count, b, end, rows, count, out);
        }
        rows += static_cast<size_t>(count) * Type::activation_size(k);
        out += count;
    }
}

}  // namespace

}  // namespace gc
