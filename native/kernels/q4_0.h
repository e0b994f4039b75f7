// Q4_0: blocks of 32 weights of four bits that share a scale, times activations in Q8_0.
//
// A weight is its quantum less 8, so that a block's sum of products is that of the quanta, which
// fit the instructions' unsigned operand, less 8 times the sum of the activations. These are whole
// numbers; the floats are then combined in ggml's order, so that results equal ggml's bit for bit.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "isa.h"
#include "kernel.h"

namespace gc {

namespace {

struct Q4_0 {
    // Bytes of four columns of each row; the low four bits are columns 4 i ..., the high 4 i + 16
    // ...
    struct Block {
        uint16_t scales[Isa::kRows];
        uint8_t quanta[4][Isa::kRows * 4];
    };

    static size_t group_size(int64_t k) {
        return static_cast<size_t>(k / BlockQ4_0::kColumns) * sizeof(Block);
    }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / BlockQ4_0::kColumns;
        const auto *from = static_cast<const BlockQ4_0 *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < Isa::kRows; ++r) {
                const BlockQ4_0 &block = from[r * n_blocks + b];
                to[b].scales[r] = block.scale;
                for (int i = 0; i < 4; ++i) {
                    __builtin_memcpy(to[b].quanta[i] + r * 4, block.quanta + i * 4, 4);
                }
            }
        }
    }

    template <int kTile>
    static void tile(const Block *blocks, int64_t n_blocks, const Activations32 *const *activations,
                     float *const *out, int64_t row) {
        Isa::Floats results[kTile];
        for (int i = 0; i < kTile; ++i) {
            results[i] = Isa::no_floats();
        }
        for (int64_t b = 0; b < n_blocks; ++b) {
            Isa::Sums sums[kTile];
            for (int i = 0; i < kTile; ++i) {
                sums[i] = Isa::no_sums();
            }
            for (int j = 0; j < 4; ++j) {
                const Isa::Bytes both = Isa::load(blocks[b].quanta[j]);
                const Isa::Bytes low = Isa::low_nibbles(both), high = Isa::high_nibbles(both);
                for (int i = 0; i < kTile; ++i) {
                    const int8_t *quanta = activations[i][b].quanta + j * 4;
                    sums[i] = Isa::add_products(sums[i], low, Isa::four(quanta));
                    sums[i] = Isa::add_products(sums[i], high, Isa::four(quanta + 16));
                }
            }
            const Isa::Floats scales = Isa::halves(blocks[b].scales);
            for (int i = 0; i < kTile; ++i) {
                const Activations32 &taken = activations[i][b];
                const Isa::Ints sum = Isa::subtract(Isa::total(sums[i]), 8 * taken.sum);
                results[i] = Isa::multiply_add(Isa::to_floats(sum),
                                               Isa::scaled(scales, taken.scale), results[i]);
            }
        }
        for (int i = 0; i < kTile; ++i) {
            Isa::store(out[i] + row, results[i]);
        }
    }

    static void multiply(const void *groups, int64_t k, int64_t group_count,
                         const void *activations, int64_t m, float *const *out) {
        const int64_t n_blocks = k / BlockQ4_0::kColumns;
        const size_t stride = activations32_size(k);
        for (int64_t g = 0; g < group_count; ++g) {
            const Block *blocks = static_cast<const Block *>(groups) + g * n_blocks;
            for (int64_t i = 0; i < m; ++i) {
                const auto *row = reinterpret_cast<const Activations32 *>(
                    static_cast<const char *>(activations) + static_cast<size_t>(i) * stride);
                tile<1>(blocks, n_blocks, &row, out + i, g * Isa::kRows);
            }
        }
    }
};

}  // namespace

}  // namespace gc
