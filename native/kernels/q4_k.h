// Q4_K: superblocks of 256 weights of four bits, times activations in Q8_K.

#pragma once

#include "blocks.h"
#include "minima.h"
#include "nibbles.h"

namespace gc {

namespace {

struct Q4_K {
    static constexpr int64_t kColumns = BlockQ4_K::kColumns;
    static constexpr int kTile = Isa::kTile;
    static constexpr int kSteps = kSubBlocks;

    struct Block {
        Scales scales;
        Nibbles quanta[kSubBlocks];
    };
    using Activations = Activations256;

    static size_t activation_size(int64_t k) { return activations256_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ4_K *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ4_K &block = from[r * n_blocks + b];
                to[b].scales.pack(block, r);
                for (int s = 0; s < kSubBlocks; ++s) {
                    pack_sub_block(block.quanta + s / 2 * 32, s % 2 * 4, r, to[b].quanta[s]);
                }
            }
        }
    }

    // A sub-block's four bits at shift of each of 32 bytes.
    static void pack_sub_block(const uint8_t *bytes, int shift, int row, Nibbles &nibbles) {
        uint8_t packed[16];
        for (int i = 0; i < 16; ++i) {
            const int low = bytes[i] >> shift & 15, high = bytes[i + 16] >> shift & 15;
            packed[i] = static_cast<uint8_t>(low | high << 4);
        }
        pack_nibbles(packed, row, nibbles);
    }

    template <int kTile>
    static void tile(const Part<Q4_K> &part) {
        tile_with_minima<Q4_K, kTile>(part);
    }

    template <int kTile>
    static void add_sub_blocks(const Part<Q4_K> &part, int64_t b,
                               const Activations *const (&rows)[kTile],
                               const Isa::Scales (&scales)[kSubBlocks][kVectors],
                               Isa::Ints (&totals)[kTile][kVectors]) {
        for (int s = 0; s < kSubBlocks; ++s) {
            part.fetch(b * kSteps + s);
            const int8_t *taken[kTile];
            for (int i = 0; i < kTile; ++i) {
                taken[i] = rows[i]->quanta + s * 32;
            }
            Isa::Sums sums[kTile][kVectors];
            multiply_nibbles(part.blocks[b].quanta[s], taken, sums);
            for (int i = 0; i < kTile; ++i) {
                for (int v = 0; v < kVectors; ++v) {
                    totals[i][v] = Isa::add_scaled(totals[i][v], sums[i][v], scales[s][v]);
                }
            }
        }
    }
};

}  // namespace

}  // namespace gc
