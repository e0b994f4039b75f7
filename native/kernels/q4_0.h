// Q4_0: blocks of 32 weights of four bits that share a scale, times activations in Q8_0.
//
// A weight is its quantum less 8, so that a block's sum of products is that of the quanta, which
// fit the instructions' unsigned operand, less 8 times the sum of the activations. These are whole
// numbers; the floats are then combined in ggml's order, so that results equal ggml's bit for bit.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "tiles.h"

namespace gc {

namespace {

struct Q4_0 {
    static constexpr int64_t kColumns = BlockQ4_0::kColumns;
    static constexpr int64_t kBlocksAtOnce = 16;
    static constexpr int kTile = Isa::kTile;

    // Four columns of each row after the other: the low four bits are columns 4 i ... of quanta[i],
    // the high ones columns 4 i + 16 ...
    struct Block {
        uint16_t scales[kGroupRows];
        uint8_t quanta[4][kGroupRows * 4];
    };
    using Activations = Activations32;

    static size_t group_size(int64_t k) {
        return static_cast<size_t>(k / kColumns) * sizeof(Block);
    }

    static size_t activation_size(int64_t k) { return activations32_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ4_0 *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ4_0 &block = from[r * n_blocks + b];
                to[b].scales[r] = block.scale;
                for (int i = 0; i < 4; ++i) {
                    __builtin_memcpy(to[b].quanta[i] + r * 4, block.quanta + i * 4, 4);
                }
            }
        }
    }

    template <int kTile>
    static void tile(const Part<Q4_0> &part) {
        const Activations *rows[kTile];
        Isa::Floats results[kTile][kVectors];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
            for (int v = 0; v < kVectors; ++v) {
                results[i][v] = part.continued
                                    ? Isa::load(part.out[i] + part.place + v * Isa::kLanes)
                                    : Isa::no_floats();
            }
        }
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            const Block &block = part.blocks[b];
            part.fetch(b);
            Isa::Sums sums[kTile][kVectors];
            for (int j = 0; j < 4; ++j) {
                Isa::Bytes both[kVectors], quanta[kVectors];
                for (int v = 0; v < kVectors; ++v) {
                    both[v] = Isa::load(block.quanta[j] + v * Isa::kLanes * 4);
                    quanta[v] = Isa::low_nibbles(both[v]);
                }
                for (int i = 0; i < kTile; ++i) {
                    const Isa::Bytes taken = Isa::four(rows[i][b].quanta + j * 4);
                    for (int v = 0; v < kVectors; ++v) {
                        sums[i][v] = j == 0 ? Isa::products(quanta[v], taken)
                                            : Isa::add_products(sums[i][v], quanta[v], taken);
                    }
                }
                for (int v = 0; v < kVectors; ++v) {
                    quanta[v] = Isa::high_nibbles(both[v]);
                }
                for (int i = 0; i < kTile; ++i) {
                    const Isa::Bytes taken = Isa::four(rows[i][b].quanta + j * 4 + 16);
                    for (int v = 0; v < kVectors; ++v) {
                        sums[i][v] = Isa::add_products(sums[i][v], quanta[v], taken);
                    }
                }
            }
            for (int v = 0; v < kVectors; ++v) {
                const Isa::Floats scales = Isa::halves(block.scales + v * Isa::kLanes);
                for (int i = 0; i < kTile; ++i) {
                    const Isa::Ints sum = Isa::subtract(Isa::total(sums[i][v]), rows[i][b].sum8);
                    results[i][v] = Isa::multiply_add(
                        Isa::to_floats(sum), Isa::scaled(scales, rows[i][b].scale), results[i][v]);
                }
            }
        }
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                Isa::store(part.out[i] + part.place + v * Isa::kLanes, results[i][v]);
            }
        }
    }
};

}  // namespace

}  // namespace gc
