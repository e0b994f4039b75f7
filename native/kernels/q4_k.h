// Q4_K: superblocks of 256 weights, times activations in Q8_K.
//
// Each sub-block of 32 weights of four bits has a scale and a minimum of six, so that all products
// of a superblock are whole numbers. The floats are combined in the order of ggml's repacked
// kernels.

#pragma once

#include "activations.h"
#include "blocks.h"
#include "nibbles.h"
#include "tiles.h"

namespace gc {

namespace {

struct Q4_K {
    static constexpr int64_t kColumns = BlockQ4_K::kColumns;
    static constexpr int kTile = Isa::kTile;
    static constexpr int kSubBlocks = 8;
    static constexpr int kSteps = kSubBlocks;

    struct Block {
        uint16_t scales[kGroupRows], mins[kGroupRows];
        uint8_t packed[3][kGroupRows * 4];  // four bytes of BlockQ4_K::scales of each row
        Nibbles quanta[kSubBlocks];
    };
    using Activations = Activations256;

    static size_t group_size(int64_t k) {
        return static_cast<size_t>(k / kColumns) * sizeof(Block);
    }

    static size_t activation_size(int64_t k) { return activations256_size(k); }

    static void pack(const void *rows, int64_t k, void *group) {
        const int64_t n_blocks = k / kColumns;
        const auto *from = static_cast<const BlockQ4_K *>(rows);
        auto *to = static_cast<Block *>(group);
        for (int64_t b = 0; b < n_blocks; ++b) {
            for (int r = 0; r < kGroupRows; ++r) {
                const BlockQ4_K &block = from[r * n_blocks + b];
                to[b].scales[r] = block.scale;
                to[b].mins[r] = block.min;
                for (int i = 0; i < 3; ++i) {
                    __builtin_memcpy(to[b].packed[i] + r * 4, block.scales + i * 4, 4);
                }
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

    // The scales and minima of a superblock's sub-blocks.
    struct Factors {
        Isa::Scales scales[kSubBlocks];
        Isa::Bytes mins[2];  // four a lane

        Factors(const Block &block, int v) {
            Isa::Bytes words[3];
            for (int i = 0; i < 3; ++i) {
                words[i] = Isa::load(block.packed[i] + v * Isa::kLanes * 4);
            }
            const Isa::Bytes first = Isa::bits<0>(words[0], 63);
            const Isa::Bytes second =
                Isa::join(Isa::bits<0>(words[2], 15), Isa::bits<2>(words[0], 48));
            scales[0] = Isa::scales<0>(first);
            scales[1] = Isa::scales<1>(first);
            scales[2] = Isa::scales<2>(first);
            scales[3] = Isa::scales<3>(first);
            scales[4] = Isa::scales<0>(second);
            scales[5] = Isa::scales<1>(second);
            scales[6] = Isa::scales<2>(second);
            scales[7] = Isa::scales<3>(second);
            mins[0] = Isa::bits<0>(words[1], 63);
            mins[1] = Isa::join(Isa::bits<4>(words[2], 15), Isa::bits<2>(words[1], 48));
        }

        // The minima times the sums of the activations.
        Isa::Ints subtracted(const int16_t *sums) const {
            Isa::Ints total = Isa::no_ints();
            total = Isa::add_pair<0>(total, mins[0], sums);
            total = Isa::add_pair<2>(total, mins[0], sums + 2);
            total = Isa::add_pair<0>(total, mins[1], sums + 4);
            return Isa::add_pair<2>(total, mins[1], sums + 6);
        }
    };

    template <int kTile>
    static void tile(const Part<Q4_K> &part) {
        const Activations *rows[kTile];
        Results<kTile> results, subtracted;
        clear<kTile>(results);
        clear<kTile>(subtracted);
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
        }
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            add_block<kTile>(part, rows, b, results, subtracted);
        }
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                results[i][v] = Isa::subtract(results[i][v], subtracted[i][v]);
            }
        }
        store<Q4_K, kTile>(part, results);
    }

    template <int kTile>
    static void add_block(const Part<Q4_K> &part, const Activations *const (&rows)[kTile],
                          int64_t b, Results<kTile> &results, Results<kTile> &subtracted) {
        const Block &block = part.blocks[b];
        Isa::Ints totals[kTile][kVectors];
        for (int i = 0; i < kTile; ++i) {
            for (int v = 0; v < kVectors; ++v) {
                totals[i][v] = Isa::no_ints();
            }
        }
        Isa::Scales scales[kSubBlocks][kVectors];
        for (int v = 0; v < kVectors; ++v) {
            const Factors factors(block, v);
            for (int s = 0; s < kSubBlocks; ++s) {
                scales[s][v] = factors.scales[s];
            }
            const Isa::Floats mins = Isa::halves(block.mins + v * Isa::kLanes);
            for (int i = 0; i < kTile; ++i) {
                const Isa::Ints total = factors.subtracted(rows[i][b].sums);
                subtracted[i][v] = Isa::multiply_add(
                    Isa::to_floats(total), Isa::scaled(mins, rows[i][b].scale), subtracted[i][v]);
            }
        }
        for (int s = 0; s < kSubBlocks; ++s) {
            part.fetch(b * kSteps + s);
            const int8_t *taken[kTile];
            for (int i = 0; i < kTile; ++i) {
                taken[i] = rows[i][b].quanta + s * 32;
            }
            Isa::Sums sums[kTile][kVectors];
            multiply_nibbles(block.quanta[s], taken, sums);
            for (int i = 0; i < kTile; ++i) {
                for (int v = 0; v < kVectors; ++v) {
                    totals[i][v] = Isa::add_scaled(totals[i][v], sums[i][v], scales[s][v]);
                }
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            const Isa::Floats factors = Isa::halves(block.scales + v * Isa::kLanes);
            for (int i = 0; i < kTile; ++i) {
                results[i][v] =
                    Isa::multiply_add(Isa::to_floats(totals[i][v]),
                                      Isa::scaled(factors, rows[i][b].scale), results[i][v]);
            }
        }
    }
};

}  // namespace

}  // namespace gc
