// Q8_0: blocks of 32 weights of eight bits that share a scale, times activations in Q8_0.
//
// ggml multiplies with vectors along a row: it keeps eight sums, one for every four columns of a
// block, and adds them up at the end. So does this, for as many rows as a vector has lanes, so that
// results equal ggml's bit for bit.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "tiles.h"

namespace gc {

namespace {

struct Q8_0 {
    static constexpr int64_t kColumns = BlockQ8_0::kColumns;
    static constexpr int kTile = 4;
    static constexpr int kSteps = 1;
    static constexpr int kFours = 8;  // of columns in a block

    // Four columns of each row after the other.
    struct Block {
        uint16_t scales[kGroupRows];
        int8_t quanta[kFours][kGroupRows * 4];
    };
    using Activations = Activations32Fours;

    static size_t activation_size(int64_t k) { return activations32_fours_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ8_0 *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ8_0 &block = from[r * n_blocks + b];
                to[b].scales[r] = block.scale;
                for (int j = 0; j < kFours; ++j) {
                    __builtin_memcpy(to[b].quanta[j] + r * 4, block.quanta + j * 4, 4);
                }
            }
        }
    }

    template <int kTile>
    static void tile(const Part<Q8_0> &part) {
        Isa::Floats results[kTile][kFours][kVectors];
        const Activations *rows[kTile];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
            for (int j = 0; j < kFours; ++j) {
                for (int v = 0; v < kVectors; ++v) {
                    results[i][j][v] = Isa::no_floats();
                }
            }
        }
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            part.fetch(b);
            const Block &block = part.blocks[b];
            Isa::Floats scales[kTile][kVectors];
            for (int v = 0; v < kVectors; ++v) {
                const Isa::Floats factors = Isa::halves(block.scales + v * Isa::kLanes);
                for (int i = 0; i < kTile; ++i) {
                    scales[i][v] = Isa::scaled(factors, rows[i][b].scale);
                }
            }
            for (int j = 0; j < kFours; ++j) {
                for (int v = 0; v < kVectors; ++v) {
                    const Isa::Signed weights =
                        Isa::load_signed(block.quanta[j] + v * Isa::kLanes * 4);
                    for (int i = 0; i < kTile; ++i) {
                        const Isa::Ints sum = Isa::signed_products(
                            weights, rows[i][b].quanta + j * 4, rows[i][b].offsets[j]);
                        results[i][j][v] =
                            Isa::multiply_add(Isa::to_floats(sum), scales[i][v], results[i][j][v]);
                    }
                }
            }
        }
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                Isa::store(part.out[i] + part.place + v * Isa::kLanes, total(results[i], v));
            }
        }
    }

    // The eight sums in the order in which ggml adds them up.
    static Isa::Floats total(const Isa::Floats (&sums)[kFours][kVectors], int v) {
        const auto add_halves = [&](int j) { return Isa::add(sums[j + 4][v], sums[j][v]); };
        return Isa::add(Isa::add(add_halves(0), add_halves(2)),
                        Isa::add(add_halves(1), add_halves(3)));
    }
};

}  // namespace

}  // namespace gc
