// AVX2 with AVX-VNNI: one instruction sums up four products in 32 bits.

#pragma once

#include "isa_avx2.h"

namespace gc {

namespace {

struct AvxVnni : Avx2 {
    static Sums products(Bytes weights, Bytes activations) {
        return add_products(_mm256_setzero_si256(), weights, activations);
    }
    static Sums add_products(Sums sums, Bytes weights, Bytes activations) {
        return _mm256_dpbusd_avx_epi32(sums, weights, activations);
    }
    static Ints total(Sums sums) { return sums; }

    static Sums start(const int16_t *pair) { return Avx2::total(Avx2::start(pair)); }

    template <int kByte>
    static Scales scales(Bytes x) {
        return _mm256_and_si256(_mm256_srli_epi32(x, kByte * 8), _mm256_set1_epi32(255));
    }
    template <int kByte>
    static Scales signed_scales(Bytes x) {
        return _mm256_srai_epi32(_mm256_slli_epi32(x, 24 - kByte * 8), 24);
    }
    static Ints add_scaled(Ints total, Sums sums, Scales scales) {
        return _mm256_add_epi32(total, _mm256_mullo_epi32(sums, scales));
    }

    // Shifted by 128, weights of eight bits have no sign.
    using Signed = Bytes;
    static Signed load_signed(const int8_t *bytes) {
        return _mm256_xor_si256(load(reinterpret_cast<const uint8_t *>(bytes)),
                                _mm256_set1_epi8(-128));
    }
    static Ints signed_products(Signed weights, const int8_t *columns, int32_t offset) {
        return add_products(start_signed(offset), weights, four(columns));
    }

    static Table table(const int8_t *values) {
        return _mm256_xor_si256(Avx2::table(values), _mm256_set1_epi8(-128));
    }
    static Signed look_up(Table table, Bytes indices) {
        return _mm256_shuffle_epi8(table, indices);
    }

    static Ints start_signed(int32_t offset) { return _mm256_set1_epi32(offset); }
    static Ints add_signed_products(Ints sums, Signed weights, Bytes activations) {
        return add_products(sums, weights, activations);
    }
};

}  // namespace

}  // namespace gc
