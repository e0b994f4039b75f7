// Q5_K: superblocks of 256 weights of five bits, times activations in Q8_K.

#pragma once

#include "blocks.h"
#include "minima.h"
#include "nibbles.h"
#include "q4_k.h"

namespace gc {

namespace {

struct Q5_K {
    static constexpr int64_t kColumns = BlockQ5_K::kColumns;
    static constexpr int kTile = Isa::kTile;
    static constexpr int kSteps = kSubBlocks;

    struct Block {
        Scales scales;
        Nibbles low[kSubBlocks];
        // The fifth bits: in every byte those of the low and the high nibble of one sub-block, then
        // of the three that follow.
        uint8_t high[2][4][kGroupRows * 4];
    };
    using Activations = Activations256;

    static size_t activation_size(int64_t k) { return activations256_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ5_K *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ5_K &block = from[r * n_blocks + b];
                to[b].scales.pack(block, r);
                for (int s = 0; s < kSubBlocks; ++s) {
                    Q4_K::pack_sub_block(block.low + s / 2 * 32, s % 2 * 4, r, to[b].low[s]);
                }
                for (int half = 0; half < 2; ++half) {
                    pack_high(block.high, half, r, to[b].high[half]);
                }
            }
        }
    }

    // The fifth bits of four sub-blocks, which are bits half * 4 ... of every byte.
    static void pack_high(const uint8_t *bytes, int half, int row,
                          uint8_t (&high)[4][kGroupRows * 4]) {
        for (int i = 0; i < 16; ++i) {
            int packed = 0;
            for (int s = 0; s < 4; ++s) {
                const int bit = half * 4 + s;
                packed |= (bytes[i] >> bit & 1) << s * 2 | (bytes[i + 16] >> bit & 1)
                                                               << (s * 2 + 1);
            }
            high[i / 4][row * 4 + i % 4] = static_cast<uint8_t>(packed);
        }
    }

    template <int kTile>
    static void tile(const Part<Q5_K> &part) {
        tile_with_minima<Q5_K, kTile>(part);
    }

    template <int kTile>
    static void add_sub_blocks(const Part<Q5_K> &part, int64_t b,
                               const Activations *const (&rows)[kTile],
                               const Isa::Scales (&scales)[kSubBlocks][kVectors],
                               Isa::Ints (&totals)[kTile][kVectors]) {
        for (int half = 0; half < 2; ++half) {
            for (int step = 0; step < 4; ++step) {
                part.fetch(b * kSteps + half * 4 + step);
            }
            add_halves<kTile, 0>(part.blocks[b], half, rows, scales, totals);
            add_halves<kTile, 1>(part.blocks[b], half, rows, scales, totals);
            add_halves<kTile, 2>(part.blocks[b], half, rows, scales, totals);
            add_halves<kTile, 3>(part.blocks[b], half, rows, scales, totals);
        }
    }

    // Sub-block kPlace of four. The sums of 32 products could be too large for 16 bits.
    template <int kTile, int kPlace>
    static void add_halves(const Block &block, int half, const Activations *const (&rows)[kTile],
                           const Isa::Scales (&scales)[kSubBlocks][kVectors],
                           Isa::Ints (&totals)[kTile][kVectors]) {
        add_half<kTile, kPlace, 0>(block, half, rows, scales[half * 4 + kPlace], totals);
        add_half<kTile, kPlace, 1>(block, half, rows, scales[half * 4 + kPlace], totals);
    }

    template <int kTile, int kPlace, int kHalf>
    static void add_half(const Block &block, int half, const Activations *const (&rows)[kTile],
                         const Isa::Scales (&scales)[kVectors],
                         Isa::Ints (&totals)[kTile][kVectors]) {
        const int sub_block = half * 4 + kPlace;
        Isa::Sums sums[kTile][kVectors];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            Isa::Bytes weights[kVectors];
            for (int v = 0; v < kVectors; ++v) {
                const int place = v * Isa::kLanes * 4;
                const Isa::Bytes low = Isa::load(block.low[sub_block].bytes[j] + place);
                const Isa::Bytes high = Isa::load(block.high[half][j] + place);
                weights[v] = Isa::join(Isa::bits<kHalf * 4>(low, 15),
                                       Isa::bits<kPlace * 2 + kHalf - 4>(high, 16));
            }
            for (int i = 0; i < kTile; ++i) {
                const Isa::Bytes taken =
                    Isa::four(rows[i]->quanta + sub_block * 32 + kHalf * 16 + j * 4);
                for (int v = 0; v < kVectors; ++v) {
                    sums[i][v] = j == 0 ? Isa::products(weights[v], taken)
                                        : Isa::add_products(sums[i][v], weights[v], taken);
                }
            }
        }
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                totals[i][v] = Isa::add_scaled(totals[i][v], sums[i][v], scales[v]);
            }
        }
    }
};

}  // namespace

}  // namespace gc
