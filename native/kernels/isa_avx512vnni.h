// AVX-512 with VNNI: one instruction sums up four products in each of 16 lanes.

#pragma once

#include <immintrin.h>

#include <cstdint>

namespace gc {

namespace {

struct Avx512Vnni {
    static constexpr int kLanes = 16;
    static constexpr int kTile = 6;

    using Bytes = __m512i;
    using Ints = __m512i;
    using Floats = __m512;
    using Sums = __m512i;

    static Bytes load(const uint8_t *bytes) { return _mm512_loadu_si512(bytes); }
    template <int kShift>
    static Bytes bits(Bytes x, int8_t mask) {
        if constexpr (kShift > 0) {
            x = _mm512_srli_epi16(x, kShift);
        } else if constexpr (kShift < 0) {
            x = _mm512_slli_epi16(x, -kShift);
        }
        return _mm512_and_si512(x, _mm512_set1_epi8(mask));
    }
    static Bytes join(Bytes a, Bytes b) { return _mm512_or_si512(a, b); }
    static Bytes four(const int8_t *columns) {
        int32_t bits;
        __builtin_memcpy(&bits, columns, sizeof(bits));
        return _mm512_set1_epi32(bits);
    }

    static Sums products(Bytes weights, Bytes activations) {
        return add_products(_mm512_setzero_si512(), weights, activations);
    }
    static Sums add_products(Sums sums, Bytes weights, Bytes activations) {
        return _mm512_dpbusd_epi32(sums, weights, activations);
    }
    static Ints total(Sums sums) { return sums; }

    static Sums start(const int16_t *pair) {
        return _mm512_madd_epi16(pairs_of(pair), _mm512_set1_epi16(1));
    }

    using Scales = __m512i;
    template <int kByte>
    static Scales scales(Bytes x) {
        return _mm512_and_si512(_mm512_srli_epi32(x, kByte * 8), _mm512_set1_epi32(255));
    }
    template <int kByte>
    static Scales signed_scales(Bytes x) {
        return _mm512_srai_epi32(_mm512_slli_epi32(x, 24 - kByte * 8), 24);
    }
    static Ints add_scaled(Ints total, Sums sums, Scales scales) {
        return _mm512_add_epi32(total, _mm512_mullo_epi32(sums, scales));
    }

    template <int kByte>
    static Ints add_pair(Ints total, Bytes x, const int16_t *pair) {
        const __m512i low = scales<kByte>(x);
        const __m512i high = _mm512_slli_epi32(scales<kByte + 1>(x), 16);
        return _mm512_dpwssd_epi32(total, _mm512_or_si512(low, high), pairs_of(pair));
    }

    static Ints no_ints() { return _mm512_setzero_si512(); }
    static Ints subtract(Ints a, int32_t b) { return _mm512_sub_epi32(a, _mm512_set1_epi32(b)); }

    // Shifted by 128, weights of eight bits have no sign.
    using Signed = Bytes;
    static Signed load_signed(const int8_t *bytes) {
        return _mm512_xor_si512(_mm512_loadu_si512(bytes), _mm512_set1_epi8(-128));
    }
    static Ints signed_products(Signed weights, const int8_t *columns, int32_t offset) {
        return add_products(start_signed(offset), weights, four(columns));
    }

    using Table = __m512i;
    static Table table(const int8_t *values) {
        __m128i four[4];
        for (__m128i &one : four) {
            one = _mm_loadu_si128(reinterpret_cast<const __m128i *>(values));
        }
        return _mm512_xor_si512(_mm512_loadu_si512(four), _mm512_set1_epi8(-128));
    }
    static Signed look_up(Table table, Bytes indices) {
        return _mm512_shuffle_epi8(table, indices);
    }

    static Ints start_signed(int32_t offset) { return _mm512_set1_epi32(offset); }
    static Ints add_signed_products(Ints sums, Signed weights, Bytes activations) {
        return add_products(sums, weights, activations);
    }

    static Floats no_floats() { return _mm512_setzero_ps(); }
    static Floats load(const float *values) { return _mm512_loadu_ps(values); }
    static void store(float *values, Floats stored) { _mm512_storeu_ps(values, stored); }
    static Floats halves(const uint16_t *values) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(values)));
    }
    static Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
    static Floats scaled(Floats x, float factor) {
        return _mm512_mul_ps(x, _mm512_set1_ps(factor));
    }
    static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
    static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
    static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }

private:
    static __m512i pairs_of(const int16_t *pair) {
        int32_t both;
        __builtin_memcpy(&both, pair, sizeof(both));
        return _mm512_set1_epi32(both);
    }
};

}  // namespace

}  // namespace gc
