// IQ4_NL: as Q4_0, but the four bits choose one of 16 values of eight bits, which lie closer
// together near zero.
//
// A block's products are summed up in whole numbers, and the floats combined in ggml's order, so
// that results equal ggml's bit for bit. Two products of such values already fill 16 bits: where
// sums have no more, each pair of products is widened on its own.

#pragma once

#include "q4_0.h"

namespace gc {

namespace {

struct IQ4_NL : Q4_0 {
    // What the format gives the quanta 0 to 15.
    static constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

    template <int kTile>
    static void tile(const Part<IQ4_NL> &part) {
        const Activations *rows[kTile];
        for (int i = 0; i < kTile; ++i) {
            rows[i] = part.row(i);
        }
        const Isa::Table values = Isa::table(kValues);
        Results<kTile> results;
        clear<kTile>(results);
        for (int64_t b = 0; b < part.n_blocks; ++b) {
            const Block &block = part.blocks[b];
            part.fetch(b);
            const int8_t *taken[kTile];
            Isa::Ints sums[kTile][kVectors];
            for (int i = 0; i < kTile; ++i) {
                taken[i] = rows[i][b].quanta;
                for (int v = 0; v < kVectors; ++v) {
                    sums[i][v] = Isa::start_signed(-16 * rows[i][b].sum8);
                }
            }
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                Isa::Bytes both[kVectors];
                Isa::Signed weights[kVectors];
                for (int v = 0; v < kVectors; ++v) {
                    both[v] = Isa::load(block.quanta.bytes[j] + v * Isa::kLanes * 4);
                    weights[v] = Isa::look_up(values, Isa::bits<0>(both[v], 15));
                }
                add_products(weights, taken, j * 4, sums);
                for (int v = 0; v < kVectors; ++v) {
                    weights[v] = Isa::look_up(values, Isa::bits<4>(both[v], 15));
                }
                add_products(weights, taken, j * 4 + 16, sums);
            }
            for (int v = 0; v < kVectors; ++v) {
                const Isa::Floats scales = Isa::halves(block.scales + v * Isa::kLanes);
                for (int i = 0; i < kTile; ++i) {
                    results[i][v] =
                        Isa::multiply_add(Isa::to_floats(sums[i][v]),
                                          Isa::scaled(scales, rows[i][b].scale), results[i][v]);
                }
            }
        }
        store<IQ4_NL, kTile>(part, results);
    }

private:
    template <int kTile>
    static void add_products(const Isa::Signed (&weights)[kVectors],
                             const int8_t *const (&activations)[kTile], int column,
                             Isa::Ints (&sums)[kTile][kVectors]) {
        for (int i = 0; i < kTile; ++i) {
            const Isa::Bytes taken = Isa::four(activations[i] + column);
            for (int v = 0; v < kVectors; ++v) {
                sums[i][v] = Isa::add_signed_products(sums[i][v], weights[v], taken);
            }
        }
    }
};

}  // namespace

}  // namespace gc
