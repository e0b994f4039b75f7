#include "cut.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace gc {

namespace {

constexpr int32_t kBins = 256;
constexpr int32_t kLanes = 8;    // independent, so that compilers vectorise the loops
constexpr int32_t kChunk = 256;  // values whose bins are found at a time

struct Span {
    float low;
    float high;
};

// The value that `better` prefers to all others.
template <typename Better>
float best_of(const float *values, int32_t n, Better better) {
    float best[kLanes];
    std::fill(best, best + kLanes, values[0]);
    int32_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            best[lane] = better(values[i + lane], best[lane]) ? values[i + lane] : best[lane];
        }
    }
    for (; i < n; ++i) {
        best[0] = better(values[i], best[0]) ? values[i] : best[0];
    }
    return *std::max_element(best, best + kLanes, [=](float a, float b) { return better(b, a); });
}

Span span_of(const float *values, int32_t n) {
    return {best_of(values, n, std::less<float>()), best_of(values, n, std::greater<float>())};
}

// Calls use(i, bin) for every value in turn. The bins are equal parts of the span: in double
// precision neither it nor its inverse can overflow, and its two ends always lie in different bins.
template <typename Use>
void for_each_bin(const float *values, int32_t n, Span span, Use use) {
    const double low = span.low;
    const double per_unit = (kBins - 1) / (span.high - low);
    int32_t bins[kChunk];
    for (int32_t start = 0; start < n; start += kChunk) {
        const int32_t n_here = std::min(kChunk, n - start);
        for (int32_t i = 0; i < n_here; ++i) {
            bins[i] = static_cast<int32_t>((values[start + i] - low) * per_unit);
        }
        for (int32_t i = 0; i < n_here; ++i) {
            use(start + i, bins[i]);
        }
    }
}

}  // namespace

Cut cut_by_mass(const float *values, const float *weights, int32_t n, double goal) {
    thread_local std::vector<float> bin_values;
    thread_local std::vector<float> bin_weights;
    double kept = 0.0;  // weight above the bin that is looked into
    while (true) {
        const Span span = span_of(values, n);
        if (span.low == span.high) {
            int32_t n_equal = 0;
            while (n_equal < n && kept < goal) {
                kept += weights[n_equal++];
            }
            return {span.low, n_equal};
        }
        double even[kBins] = {};  // two histograms: an addition need not wait for the one before
        double odd[kBins] = {};
        for_each_bin(values, n, span,
                     [&](int32_t i, int32_t bin) { (i % 2 == 0 ? even : odd)[bin] += weights[i]; });
        int32_t last = kBins - 1;
        while (last > 0 && kept + (even[last] + odd[last]) < goal) {
            kept += even[last] + odd[last];
            --last;
        }
        if (bin_values.size() <= static_cast<size_t>(n)) {
            bin_values.resize(static_cast<size_t>(n) + 1);
            bin_weights.resize(static_cast<size_t>(n) + 1);
        }
        // From the second round on this moves values towards the front of where they are.
        float *const inside = bin_values.data();
        float *const inside_weights = bin_weights.data();
        int32_t n_inside = 0;
        for_each_bin(values, n, span, [&](int32_t i, int32_t bin) {
            inside[n_inside] = values[i];
            inside_weights[n_inside] = weights[i];
            n_inside += bin == last;
        });
        values = inside;
        weights = inside_weights;
        n = n_inside;
    }
}

Cut cut_by_rank(const float *values, int32_t n, int32_t k) {
    thread_local std::vector<float> ones;
    if (ones.size() < static_cast<size_t>(n)) {
        ones.resize(static_cast<size_t>(n), 1.0f);
    }
    return cut_by_mass(values, ones.data(), n, k);
}

}  // namespace gc
