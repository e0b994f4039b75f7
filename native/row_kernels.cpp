// Compiled several times, see CMakeLists.txt: GC_VARIANT names the variant, the compiler's flags
// give it its instructions. Only plain C++ here: an inline function of the standard library would
// be compiled with those flags too, and the linker might choose that copy for everyone.

#include "row_kernels.h"

#define GC_TEXT_OF(name) #name
#define GC_TEXT(name) GC_TEXT_OF(name)

namespace gc {

namespace {

#if defined(__AVX512F__)
constexpr int32_t kBytes = 64;
#elif defined(__AVX2__)
constexpr int32_t kBytes = 32;
#else
constexpr int32_t kBytes = 16;  // SSE2, NEON
#endif

constexpr int32_t kLanes = 16;
constexpr int32_t kWidth = kBytes / static_cast<int32_t>(sizeof(float));
constexpr int32_t kParts = kLanes / kWidth;  // vectors that make up the lanes
constexpr int32_t kSteps = kBlock / kLanes;

// Vectors as GCC and Clang have them on every processor.
using Floats = float __attribute__((vector_size(kBytes)));
using Bits = int32_t __attribute__((vector_size(kBytes)));

Floats load(const float *values) {
    Floats loaded;
    __builtin_memcpy(&loaded, values, sizeof(loaded));
    return loaded;
}

void store(float *values, Floats stored) { __builtin_memcpy(values, &stored, sizeof(stored)); }

Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// The largest of the lanes.
float largest_lane(const Floats (&parts)[kParts]) {
    Floats all = parts[0];
    for (int32_t part = 1; part < kParts; ++part) {
        all = larger(all, parts[part]);
    }
    float lanes[kWidth];
    store(lanes, all);
    for (int32_t half = kWidth / 2; half > 0; half /= 2) {
        for (int32_t lane = 0; lane < half; ++lane) {
            lanes[lane] = lanes[lane] > lanes[lane + half] ? lanes[lane] : lanes[lane + half];
        }
    }
    return lanes[0];
}

bool scan(const float *logits, int32_t n_blocks, float *largest) {
    Bits is_nan[kParts] = {};
    for (int32_t block = 0; block < n_blocks; ++block) {
        Floats best[kParts];
        for (int32_t part = 0; part < kParts; ++part) {
            best[part] = load(logits + part * kWidth);
            is_nan[part] |= best[part] != best[part];
        }
        for (int32_t step = 1; step < kSteps; ++step) {
            for (int32_t part = 0; part < kParts; ++part) {
                const Floats values = load(logits + step * kLanes + part * kWidth);
                best[part] = larger(values, best[part]);
                is_nan[part] |= values != values;
            }
        }
        largest[block] = largest_lane(best);
        logits += kBlock;
    }
    int32_t any = 0;
    for (int32_t lane = 0; lane < kLanes; ++lane) {
        any |= is_nan[lane / kWidth][lane % kWidth];
    }
    return any == 0;
}

// 2^y for y <= 0: y = n + f with |f| <= 1/2, and 2^n goes into the exponent of a polynomial of f,
// minimax of degree 5 and exact at 0. Adding 1.5 * 2^23 rounds to the whole number n and leaves it
// in the low bits.
Floats power_of_two(Floats y) {
    constexpr float kRound = 12582912.0f;
    const Floats shifted = y + kRound;
    const Floats f = y - (shifted - kRound);
    const Floats poly =
        1.0f +
        f * (0.693147004f +
             f * (0.240222424f + f * (0.0555073358f + f * (0.00967151299f + f * 0.00132647273f))));
    const Bits power = (Bits)poly + ((Bits)shifted << 23);
    return (Floats)(power & (y >= -125.5f));  // below that the exponent has no room
}

template <bool kKeep>
double weigh_blocks(const float *logits, int32_t n_blocks, float max, float scale, float *weights) {
    constexpr int32_t kRun = 16;  // blocks added up in single precision
    const float per_bit = scale * 1.44269504f;
    double totals[kLanes] = {};
    for (int32_t start = 0; start < n_blocks; start += kRun) {
        const int32_t n_steps = (n_blocks - start < kRun ? n_blocks - start : kRun) * kSteps;
        Floats sums[kParts] = {};
        for (int32_t step = 0; step < n_steps; ++step) {
            for (int32_t part = 0; part < kParts; ++part) {
                const Floats weight = power_of_two((load(logits + part * kWidth) - max) * per_bit);
                sums[part] += weight;
                if (kKeep) {
                    store(weights + part * kWidth, weight);
                }
            }
            logits += kLanes;
            if (kKeep) {
                weights += kLanes;
            }
        }
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            totals[lane] += static_cast<double>(sums[lane / kWidth][lane % kWidth]);
        }
    }
    for (int32_t half = kLanes / 2; half > 0; half /= 2) {
        for (int32_t lane = 0; lane < half; ++lane) {
            totals[lane] += totals[lane + half];
        }
    }
    return totals[0];
}

double weigh(const float *logits, int32_t n_blocks, float max, float scale, float *weights) {
    return weights == nullptr ? weigh_blocks<false>(logits, n_blocks, max, scale, weights)
                              : weigh_blocks<true>(logits, n_blocks, max, scale, weights);
}

}  // namespace

extern const RowKernels GC_VARIANT;
const RowKernels GC_VARIANT = {GC_TEXT(GC_VARIANT), scan, weigh};

}  // namespace gc
