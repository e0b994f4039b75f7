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
    int64_t place;         // of the group's results in a row of out
    bool continued;        // the results so far are there
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

// Blocks first ... last - 1 of each group times m rows, at_once of them at a time.
template <typename Type>
void multiply_blocks(const void *groups, int64_t k, int64_t group_count, int64_t first,
                     int64_t last, int64_t at_once, const char *activations, int64_t m,
                     float *const *out) {
    for (int64_t g = 0; g < group_count; ++g) {
        const auto *blocks =
            static_cast<const typename Type::Block *>(groups) + g * (k / Type::kColumns);
        for (int64_t b = first; b < last; b += at_once) {
            Part<Type> part{};
            part.blocks = blocks + b;
            part.n_blocks = last - b < at_once ? last - b : at_once;
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

// As many rows of activations, and as much of them, as stays in the second cache passes all groups;
// kBlocksAtOnce blocks of a group stay in the first cache while these rows pass. A type whose sums
// must live through all blocks of a row has 0 there.
template <typename Type>
void multiply(const void *groups, int64_t k, int64_t group_count, const void *activations,
              int64_t m, float *const *out) {
    constexpr int64_t kCache = 256 << 10, kMostRows = 128, kFewestRows = 8 * Type::kTile;
    constexpr auto kBlockSize = static_cast<int64_t>(sizeof(typename Type::Activations));
    const int64_t n_blocks = k / Type::kColumns;
    int64_t most_rows = kMostRows, most_blocks = n_blocks, at_once = n_blocks;
    if constexpr (Type::kBlocksAtOnce > 0) {
        at_once = Type::kBlocksAtOnce;
        const int64_t fit = kCache / (kBlockSize * at_once * (m < kMostRows ? m : kMostRows));
        most_blocks = (fit < 1 ? 1 : fit) * at_once;
    } else {
        const int64_t fit = kCache / (kBlockSize * n_blocks);
        most_rows = fit > kMostRows ? kMostRows : fit < kFewestRows ? kFewestRows : fit;
    }
    const auto *rows = static_cast<const char *>(activations);
    for (; m > 0; m -= most_rows) {
        const int64_t count = m < most_rows ? m : most_rows;
        for (int64_t b = 0; b < n_blocks; b += most_blocks) {
            const int64_t end = n_blocks - b < most_blocks ? n_blocks : b + most_blocks;
            multiply_blocks<Type>(groups, k, group_count, b, end, at_once, rows, count, out);
        }
        rows += static_cast<size_t>(count) * Type::activation_size(k);
        out += count;
    }
}

}  // namespace

}  // namespace gc
