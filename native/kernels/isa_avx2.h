// AVX2 with FMA and F16C.

#pragma once

#include <immintrin.h>

#include <cstdint>

namespace gc {

namespace {

struct Avx2 {
    static constexpr int kLanes = 8;
    // Rows of activations at once: their sums of 16 weight rows take half of the registers.
    static constexpr int kTile = 4;

    using Bytes = __m256i;
    using Ints = __m256i;
    using Floats = __m256;
    // Two sums of 16 bits a lane: enough for eight products of weights below 16.
    using Sums = __m256i;

    static Bytes load(const uint8_t *bytes) {
        Bytes loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bytes));
        return in_register(loaded);
    }
    // Some bits of every byte, after a shift to the right, or to the left if it is negative.
    template <int kShift>
    static Bytes bits(Bytes x, int8_t mask) {
        if constexpr (kShift > 0) {
            x = _mm256_srli_epi16(x, kShift);
        } else if constexpr (kShift < 0) {
            x = _mm256_slli_epi16(x, -kShift);
        }
        return _mm256_and_si256(x, _mm256_set1_epi8(mask));
    }
    static Bytes join(Bytes a, Bytes b) { return _mm256_or_si256(a, b); }
    static Bytes four(const int8_t *columns) {
        int32_t bits;
        __builtin_memcpy(&bits, columns, sizeof(bits));
        return _mm256_set1_epi32(bits);
    }

    static Sums products(Bytes weights, Bytes activations) {
        return in_register(_mm256_maddubs_epi16(weights, activations));
    }
    static Sums add_products(Sums sums, Bytes weights, Bytes activations) {
        return in_register(_mm256_add_epi16(sums, _mm256_maddubs_epi16(weights, activations)));
    }
    static Ints total(Sums sums) { return _mm256_madd_epi16(sums, _mm256_set1_epi16(1)); }

    // Sums that begin with a pair of numbers, which stand for one.
    static Sums start(const int16_t *pair) { return pairs_of(pair); }

    // A scale for every lane, byte kByte of it, and its products with sums.
    using Scales = __m256i;
    template <int kByte>
    static Scales scales(Bytes x) {
        return _mm256_shuffle_epi8(x, in_lanes(kByte, -1, kByte, -1));
    }
    template <int kByte>
    static Scales signed_scales(Bytes x) {
        return _mm256_srai_epi16(_mm256_shuffle_epi8(x, in_lanes(-1, kByte, -1, kByte)), 8);
    }
    static Ints add_scaled(Ints total, Sums sums, Scales scales) {
        return _mm256_add_epi32(total, _mm256_madd_epi16(sums, scales));
    }

    // Bytes kByte and kByte + 1 of every lane times a pair of numbers.
    template <int kByte>
    static Ints add_pair(Ints total, Bytes x, const int16_t *pair) {
        const __m256i bytes = _mm256_shuffle_epi8(x, in_lanes(kByte, -1, kByte + 1, -1));
        return _mm256_add_epi32(total, _mm256_madd_epi16(bytes, pairs_of(pair)));
    }

    static Ints no_ints() { return _mm256_setzero_si256(); }
    static Ints subtract(Ints a, int32_t b) { return _mm256_sub_epi32(a, _mm256_set1_epi32(b)); }

    // Weights of eight bits with a sign: the instructions take it from the activations.
    struct Signed {
        __m256i value, magnitude;
    };
    static Signed load_signed(const int8_t *bytes) {
        const __m256i value = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bytes));
        return {value, _mm256_abs_epi8(value)};
    }
    static Ints signed_products(const Signed &weights, const int8_t *columns, int32_t) {
        const __m256i activations = _mm256_sign_epi8(four(columns), weights.value);
        return total(_mm256_maddubs_epi16(weights.magnitude, activations));
    }

    // 16 signed values, and those that bytes below 16 choose.
    using Table = __m256i;
    static Table table(const int8_t *values) {
        return in_register(_mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(values))));
    }
    static Signed look_up(Table table, Bytes indices) {
        const __m256i value = _mm256_shuffle_epi8(table, indices);
        return {value, _mm256_abs_epi8(value)};
    }

    // Sums of products of signed weights, whose activations' sum times -128 they start from.
    static Ints start_signed(int32_t) { return no_ints(); }
    static Ints add_signed_products(Ints sums, const Signed &weights, Bytes activations) {
        const __m256i signs = _mm256_sign_epi8(activations, weights.value);
        return in_register(
            _mm256_add_epi32(sums, total(_mm256_maddubs_epi16(weights.magnitude, signs))));
    }

    static Floats no_floats() { return _mm256_setzero_ps(); }
    static Floats load(const float *values) { return _mm256_loadu_ps(values); }
    static void store(float *values, Floats stored) { _mm256_storeu_ps(values, stored); }
    static Floats halves(const uint16_t *values) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(values)));
    }
    static Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
    static Floats scaled(Floats x, float factor) {
        return _mm256_mul_ps(x, _mm256_set1_ps(factor));
    }
    static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
    static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
    static Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }

private:
    static __m256i pairs_of(const int16_t *pair) {
        int32_t both;
        __builtin_memcpy(&both, pair, sizeof(both));
        return _mm256_set1_epi32(both);
    }

    // Moves bytes within each lane; -1 gives 0.
    static __m256i in_lanes(int a, int b, int c, int d) {
        const auto at = [](int lane, int byte) {
            return static_cast<char>(byte < 0 ? byte : lane * 4 + byte);
        };
        return _mm256_setr_epi8(
            at(0, a), at(0, b), at(0, c), at(0, d), at(1, a), at(1, b), at(1, c), at(1, d),
            at(2, a), at(2, b), at(2, c), at(2, d), at(3, a), at(3, b), at(3, c), at(3, d),
            at(0, a), at(0, b), at(0, c), at(0, d), at(1, a), at(1, b), at(1, c), at(1, d),
            at(2, a), at(2, b), at(2, c), at(2, d), at(3, a), at(3, b), at(3, c), at(3, d));
    }

    // Compilers would load twice, or sort sums into trees that take more registers than there are.
    static __m256i in_register(__m256i x) {
        asm("" : "+x"(x));
        return x;
    }
};

}  // namespace

}  // namespace gc
