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
    static constexpr int kTile = kWidth == 8 ? 4 : 6;

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
    // Some bits of every byte, after a shift to the right, or to the left if it is negative.
    template <int kShift>
    static Bytes bits(Bytes x, uint8_t mask) {
        for (uint8_t &byte : x.at) {
            byte = static_cast<uint8_t>(kShift < 0 ? byte << -kShift : byte >> kShift) & mask;
        }
        return x;
    }
    static Bytes join(Bytes a, Bytes b) {
        for (int i = 0; i < kLanes * 4; ++i) {
            a.at[i] |= b.at[i];
        }
        return a;
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

    // Sums that begin with a pair of numbers, which stand for one.
    static Sums start(const int16_t *pair) {
        Sums sums;
        for (int32_t &lane : sums.at) {
            lane = pair[0] + pair[1];
        }
        return sums;
    }

    // A scale for every lane, byte kByte of it, and its products with sums.
    using Scales = Ints;
    template <int kByte>
    static Scales scales(Bytes x) {
        Scales found;
        for (int lane = 0; lane < kLanes; ++lane) {
            found.at[lane] = x.at[lane * 4 + kByte];
        }
        return found;
    }
    template <int kByte>
    static Scales signed_scales(Bytes x) {
        Scales found;
        for (int lane = 0; lane < kLanes; ++lane) {
            found.at[lane] = static_cast<int8_t>(x.at[lane * 4 + kByte]);
        }
        return found;
    }
    static Ints add_scaled(Ints total, Sums sums, Scales scales) {
        for (int lane = 0; lane < kLanes; ++lane) {
            total.at[lane] += sums.at[lane] * scales.at[lane];
        }
        return total;
    }

    // Bytes kByte and kByte + 1 of every lane times a pair of numbers.
    template <int kByte>
    static Ints add_pair(Ints total, Bytes x, const int16_t *pair) {
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint8_t *bytes = x.at + lane * 4 + kByte;
            total.at[lane] += bytes[0] * pair[0] + bytes[1] * pair[1];
        }
        return total;
    }

    static Ints no_ints() { return {}; }
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
    // The offset is -128 times the sum of the columns.
    static Ints signed_products(Signed weights, const int8_t *columns, int32_t offset) {
        return add_signed_products(start_signed(offset), weights, four(columns));
    }

    // 16 signed values, and those that bytes below 16 choose.
    struct Table {
        int8_t at[16];
    };
    static Table table(const int8_t *values) {
        Table table;
        __builtin_memcpy(table.at, values, sizeof(table.at));
        return table;
    }
    static Signed look_up(const Table &table, Bytes indices) {
        for (uint8_t &byte : indices.at) {
            byte = static_cast<uint8_t>(table.at[byte] + 128);
        }
        return indices;
    }

    // Sums of products of signed weights, whose activations' sum times -128 they start from.
    static Ints start_signed(int32_t offset) {
        Ints sums;
        for (int32_t &lane : sums.at) {
            lane = offset;
        }
        return sums;
    }
    static Ints add_signed_products(Ints sums, Signed weights, Bytes activations) {
        return add_products(sums, weights, activations);
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
    static Floats subtract(Floats a, Floats b) {
        for (int lane = 0; lane < kLanes; ++lane) {
            a.at[lane] -= b.at[lane];
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

}  // namespace

}  // namespace gc
