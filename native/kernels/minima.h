// Superblocks of 256 weights whose sub-blocks of 32 have scales and minima of six bits: what Q4_K
// and Q5_K have in common. All products of a superblock are whole numbers; the floats are combined
// in the order of ggml's repacked kernels for one row.

#pragma once

#include "activations.h"
#include "tiles.h"

namespace gc {

namespace {

constexpr int kSubBlocks = 8;

// The numbers of a superblock apart from its quanta.
struct Scales {
    uint16_t scales[kGroupRows], mins[kGroupRows];
    uint8_t packed[3][kGroupRows * 4];  // four bytes of each row's twelve

    template <typename FileBlock>
    void pack(const FileBlock &block, int row) {
        scales[row] = block.scale;
        mins[row] = block.min;
        for (int i = 0; i < 3; ++i) {
            __builtin_memcpy(packed[i] + row * 4, block.scales + i * 4, 4);
        }
    }
};

// The scales and minima of one vector's sub-blocks.
struct SubScales {
    Isa::Scales scales[kSubBlocks];
    Isa::Bytes mins[2];  // four a lane

    SubScales(const Scales &from, int v) {
        Isa::Bytes words[3];
        for (int i = 0; i < 3; ++i) {
            words[i] = Isa::load(from.packed[i] + v * Isa::kLanes * 4);
        }
        const Isa::Bytes first = Isa::bits<0>(words[0], 63);
        const Isa::Bytes second = Isa::join(Isa::bits<0>(words[2], 15), Isa::bits<2>(words[0], 48));
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

// Adds the floats of a superblock: whole numbers times its scale and the activations'.
template <int kTile>
void add_floats(const uint16_t *scales, int v, const Isa::Ints (&totals)[kTile][kVectors],
                const Activations256 *const (&rows)[kTile], Results<kTile> &results) {
    const Isa::Floats factors = Isa::halves(scales + v * Isa::kLanes);
    for (int i = 0; i < kTile; ++i) {
        results[i][v] = Isa::multiply_add(Isa::to_floats(totals[i][v]),
                                          Isa::scaled(factors, rows[i]->scale), results[i][v]);
    }
}

// A tile of such a type, whose add_sub_blocks adds the products of a superblock's quanta.
template <typename Type, int kTile>
void tile_with_minima(const Part<Type> &part) {
    Results<kTile> results, subtracted;
    clear<kTile>(results);
    clear<kTile>(subtracted);
    for (int64_t b = 0; b < part.n_blocks; ++b) {
        const typename Type::Block &block = part.blocks[b];
        const Activations256 *rows[kTile];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i) + b;
        }
        Isa::Scales scales[kSubBlocks][kVectors];
        Isa::Ints totals[kTile][kVectors];
        for (int v = 0; v < kVectors; ++v) {
            const SubScales sub_scales(block.scales, v);
            for (int s = 0; s < kSubBlocks; ++s) {
                scales[s][v] = sub_scales.scales[s];
            }
            for (int i = 0; i < kTile; ++i) {
                totals[i][v] = sub_scales.subtracted(rows[i]->sums);
            }
            add_floats<kTile>(block.scales.mins, v, totals, rows, subtracted);
            for (int i = 0; i < kTile; ++i) {
                totals[i][v] = Isa::no_ints();
            }
        }
        Type::template add_sub_blocks<kTile>(part, b, rows, scales, totals);
        for (int v = 0; v < kVectors; ++v) {
            add_floats<kTile>(block.scales.scales, v, totals, rows, results);
        }
    }
    for (int i = 0; i < kTile; ++i) {
        for (int v = 0; v < kVectors; ++v) {
            results[i][v] = Isa::subtract(results[i][v], subtracted[i][v]);
        }
    }
    store<Type, kTile>(part, results);
}

}  // namespace

}  // namespace gc
