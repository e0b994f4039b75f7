// Q4_0: blocks of 32 weights of four bits that share a scale, times activations in Q8_0.
//
// A weight is its quantum less 8, so that a block's sum of products is that of the quanta, which
// fit the instructions' unsigned operand, less 8 times the sum of the activations. These are whole
// numbers; the floats are then combined in ggml's order, so that results equal ggml's bit for bit.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "nibbles.h"
#include "tiles.h"

namespace gc {

namespace {

struct Q4_0 {
    static constexpr int64_t kColumns = BlockQ4_0::kColumns;
    static constexpr int kTile = Isa::kTile;
    static constexpr int kSteps = 1;

    struct Block {
        uint16_t scales[kGroupRows];
        Nibbles quanta;
    };
    using Activations = Activations32;

    static size_t activation_size(int64_t k) { return activations32_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ4_0 *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ4_0 &block = from[r * n_blocks + b];
                to[b].scales[r] = block.scale;
                pack_nibbles(block.quanta, r, to[b].quanta);
            }
        }
    }

    template <int kTile>
    static void tile(const Part<Q4_0> &part) {
        const Activations *rows[kTile];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
        }
        Results<kTile> results;
        clear<kTile>(results);
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            const Block &block = part.blocks[b];
            part.fetch(b);
            const int8_t *taken[kTile];
            for (int i = 0; i < kTile; ++i) {
                taken[i] = rows[i][b].quanta;
            }
            Isa::Sums sums[kTile][kVectors];
            multiply_nibbles(block.quanta, taken, sums);
            for (int v = 0; v < kVectors; ++v) {
                const Isa::Floats scales = Isa::halves(block.scales + v * Isa::kLanes);
                for (int i = 0; i < kTile; ++i) {
                    const Isa::Ints sum = Isa::subtract(Isa::total(sums[i][v]), rows[i][b].sum8);
                    results[i][v] = Isa::multiply_add(
                        Isa::to_floats(sum), Isa::scaled(scales, rows[i][b].scale), results[i][v]);
                }
            }
        }
        store<Q4_0, kTile>(part, results);
    }
};

}  // namespace

}  // namespace gc
