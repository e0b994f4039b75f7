// Q6_K: superblocks of 256 weights, times activations in Q8_K.
//
// A weight is its quantum of six bits less 32. Sums begin with -32 times the sum of the
// activations, then every sum of a sub-block of 16 columns fits in 16 bits.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "nibbles.h"
#include "tiles.h"

namespace gc {

namespace {

struct Q6_K {
    static constexpr int64_t kColumns = BlockQ6_K::kColumns;
    static constexpr int kTile = Isa::kTile;
    static constexpr int kUnits = 8;  // of two sub-blocks
    static constexpr int kSteps = 4;

    struct Block {
        uint16_t scales[kGroupRows];
        uint8_t sub_scales[4][kGroupRows * 4];  // four sub-blocks of each row
        Nibbles low[kUnits];
        // The two high bits: in every byte those of the low and the high nibble of a unit, then of
        // the next unit's.
        uint8_t high[kUnits / 2][4][kGroupRows * 4];
    };
    using Activations = Activations256;

    static size_t activation_size(int64_t k) { return activations256_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ6_K *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                pack_row(from[r * n_blocks + b], r, to[b]);
            }
        }
    }

    static void pack_row(const BlockQ6_K &block, int row, Block &to) {
        to.scales[row] = block.scale;
        for (int i = 0; i < 4; ++i) {
            __builtin_memcpy(to.sub_scales[i] + row * 4, block.scales + i * 4, 4);
        }
        uint8_t quanta[kColumns];
        for (int i = 0; i < kColumns; ++i) {
            const int half = i / 128, place = i % 128;
            const int low = block.low[half][place % 64] >> place / 64 * 4 & 15;
            const int high = block.high[half][place % 32] >> place / 32 * 2 & 3;
            quanta[i] = static_cast<uint8_t>(low | high << 4);
        }
        for (int u = 0; u < kUnits; ++u) {
            uint8_t low[16];
            for (int i = 0; i < 16; ++i) {
                const int first = quanta[u * 32 + i], second = quanta[u * 32 + 16 + i];
                low[i] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
                uint8_t &high = to.high[u / 2][i / 4][row * 4 + i % 4];
                const int bits = first >> 4 | second >> 4 << 2;
                high = static_cast<uint8_t>(u % 2 == 0 ? bits : high | bits << 4);
            }
            pack_nibbles(low, row, to.low[u]);
        }
    }

    template <int kTile>
    static void tile(const Part<Q6_K> &part) {
        const Activations *rows[kTile];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
        }
        Results<kTile> results;
        clear<kTile>(results);
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            add_block<kTile>(part, rows, b, results);
        }
        store<Q6_K, kTile>(part, results);
    }

    template <int kTile>
    static void add_block(const Part<Q6_K> &part, const Activations *const (&rows)[kTile],
                          int64_t b, Results<kTile> &results) {
        const Block &block = part.blocks[b];
        Isa::Ints totals[kTile][kVectors];
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                totals[i][v] = Isa::no_ints();
            }
        }
        // Four sub-blocks share the bytes of their scales and of their high bits.
        for (int f = 0; f < 4; ++f) {
            part.fetch(b * kSteps + f);
            add_sub_block<kTile, 0>(block, rows, b, f, totals);
            add_sub_block<kTile, 1>(block, rows, b, f, totals);
            add_sub_block<kTile, 2>(block, rows, b, f, totals);
            add_sub_block<kTile, 3>(block, rows, b, f, totals);
        }
        for (int v = 0; v < kVectors; ++v) {
            const Isa::Floats scales = Isa::halves(block.scales + v * Isa::kLanes);
            for (int i = 0; i < kTile; ++i) {
                results[i][v] =
                    Isa::multiply_add(Isa::to_floats(totals[i][v]),
                                      Isa::scaled(scales, rows[i][b].scale), results[i][v]);
            }
        }
    }

    // Sub-block kPlace of four.
    template <int kTile, int kPlace>
    static void add_sub_block(const Block &block, const Activations *const (&rows)[kTile],
                              int64_t b, int four, Isa::Ints (&totals)[kTile][kVectors]) {
        const int sub_block = four * 4 + kPlace;
        Isa::Sums sums[kTile][kVectors];
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                sums[i][v] = Isa::start(rows[i][b].offsets[sub_block]);
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            Isa::Bytes weights[kVectors];
            for (int v = 0; v < kVectors; ++v) {
                const int place = v * Isa::kLanes * 4;
                const Isa::Bytes low = Isa::load(block.low[sub_block / 2].bytes[j] + place);
                const Isa::Bytes high = Isa::load(block.high[four][j] + place);
                weights[v] = Isa::join(Isa::bits<kPlace % 2 * 4>(low, 15),
                                       Isa::bits<kPlace * 2 - 4>(high, 48));
            }
            for (int i = 0; i < kTile; ++i) {
                const Isa::Bytes taken = Isa::four(rows[i][b].quanta + sub_block * 16 + j * 4);
                for (int v = 0; v < kVectors; ++v) {
                    sums[i][v] = Isa::add_products(sums[i][v], weights[v], taken);
                }
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            const Isa::Scales scales =
                Isa::signed_scales<kPlace>(Isa::load(block.sub_scales[four] + v * Isa::kLanes * 4));
            for (int i = 0; i < kTile; ++i) {
                totals[i][v] = Isa::add_scaled(totals[i][v], sums[i][v], scales);
            }
        }
    }
};

}  // namespace

}  // namespace gc
