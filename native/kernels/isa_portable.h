// Plain C++: what the vector instructions must compute. Slow; tests run the kernels on it.

#pragma once

#include <cmath>
#include <cstdint>

#include "ggml.h"

namespace gc {

namespace {

template <int kWidth>
struct Portable {
    static constexpr int kLanes = kWidth;
    static constexpr int kTile = kWidth == 8 ? 3 : 6;

    struct Bytes {
        uint8_t at[kLanes * 4];
    };
    struct Ints {
        int32_t at[kLanes];
    };
    struct Floats {
        float at[kLanes];
    };
    using Sums = Ints;

    static Bytes load(const uint8_t *bytes) {
        Bytes loaded;
        __builtin_memcpy(&loaded, bytes, sizeof(loaded));
        return loaded;
    }
    static Bytes low_nibbles(Bytes x) {
        for (uint8_t &byte : x.at) {
            byte &= 15;
        }
        return x;
    }
    static Bytes high_nibbles(Bytes x) {
        for (uint8_t &byte : x.at) {
            byte >>= 4;
        }
        return x;
    }
    static Bytes four(const int8_t *columns) {
        Bytes x;
        for (int lane = 0; lane < kLanes; ++lane) {
            __builtin_memcpy(x.at + lane * 4, columns, 4);
        }
        return x;
    }

    static Sums products(Bytes weights, Bytes activations) {
        return add_products({}, weights, activations);
    }
    static Sums add_products(Sums sums, Bytes weights, Bytes activations) {
        for (int i = 0; i < kLanes * 4; ++i) {
            sums.at[i / 4] += weights.at[i] * static_cast<int8_t>(activations.at[i]);
        }
        return sums;
    }
    static Ints total(Sums sums) { return sums; }

    static Ints subtract(Ints a, int32_t b) {
        for (int32_t &lane : a.at) {
            lane -= b;
        }
        return a;
    }

    // Weights of eight bits with a sign; shifted by 128, they have none.
    using Signed = Bytes;
    static Signed load_signed(const int8_t *bytes) {
        Bytes x = load(reinterpret_cast<const uint8_t *>(bytes));
        for (uint8_t &byte : x.at) {
            byte ^= 128;
        }
        return x;
    }
    static Ints signed_products(Signed weights, const int8_t *columns, int32_t sum128) {
        return subtract(total(products(weights, four(columns))), sum128);
    }

    static Floats no_floats() { return {}; }
    static Floats load(const float *values) {
        Floats loaded;
        __builtin_memcpy(&loaded, values, sizeof(loaded));
        return loaded;
    }
    static void store(float *values, Floats stored) {
        __builtin_memcpy(values, &stored, sizeof(stored));
    }
    static Floats halves(const uint16_t *values) {
        Floats x;
        for (int lane = 0; lane < kLanes; ++lane) {
            x.at[lane] = ggml_fp16_to_fp32(values[lane]);
        }
        return x;
    }
    static Floats to_floats(Ints x) {
        Floats converted;
        for (int lane = 0; lane < kLanes; ++lane) {
            converted.at[lane] = static_cast<float>(x.at[lane]);
        }
        return converted;
    }
    static Floats scaled(Floats x, float factor) {
        for (float &lane : x.at) {
            lane *= factor;
        }
        return x;
    }
    static Floats add(Floats a, Floats b) {
        for (int lane = 0; lane < kLanes; ++lane) {
            a.at[lane] += b.at[lane];
        }
        return a;
    }
    static Floats multiply_add(Floats a, Floats b, Floats c) {
        for (int lane = 0; lane < kLanes; ++lane) {
            c.at[lane] = __builtin_fmaf(a.at[lane], b.at[lane], c.at[lane]);
        }
        return c;
    }
};

#if defined(GC_ISA_PORTABLE16)
using Isa = Portable<16>;
#else
using Isa = Portable<8>;
#endif

}  // namespace

}  // namespace gc
