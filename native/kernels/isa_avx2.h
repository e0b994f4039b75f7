// AVX2 with FMA and F16C.

#pragma once

#include <immintrin.h>

#include <cstdint>

namespace gc {

namespace {

struct Isa {
    static constexpr int kLanes = 8;
    // Rows of activations at once: sums and results of 16 weight rows take twelve registers.
    static constexpr int kTile = 3;

    using Bytes = __m256i;
    using Ints = __m256i;
    using Floats = __m256;
    // Two sums of 16 bits a lane: enough for eight products of weights below 16.
    using Sums = __m256i;

    static Bytes load(const uint8_t *bytes) {
        Bytes loaded = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bytes));
        return in_register(loaded);
    }
    static Bytes low_nibbles(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
    static Bytes high_nibbles(Bytes x) { return low_nibbles(_mm256_srli_epi16(x, 4)); }
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

private:
    // Compilers would load twice, or sort sums into trees that take more registers than there are.
    static __m256i in_register(__m256i x) {
        asm("" : "+x"(x));
        return x;
    }
};

}  // namespace

}  // namespace gc
