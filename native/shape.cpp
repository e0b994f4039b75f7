#include "shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cut.h"
#include "row.h"

namespace gc {

namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

// Bounds are computed to save work, never to decide: they err on the side of too many candidates.
constexpr double kMargin = 1e-4;

// The logit that lies this many nats, at the given temperature, below the largest; finite.
float below(float max, float temperature, double nats) {
    const double logit = max - temperature * (nats + kMargin);
    return std::nextafter(static_cast<float>(std::max<double>(logit, kLowest)), kLowest);
}

void keep_best(const Cut &cut, Candidates &candidates) {
    const float *logits = candidates.logits.data();
    const int32_t n = candidates.n;
    int32_t n_equal = 0;
    int32_t last = -1;  // position of the last one that stays of those that equal the cut
    for (int32_t i = 0; i < n && n_equal < cut.n_equal; ++i) {
        if (logits[i] == cut.value) {
            ++n_equal;
            last = i;
        }
    }
    const int32_t last_id = last < 0 ? -1 : candidates.ids[last];
    candidates.filter([=](float logit, float, int32_t id) {
        return (logit > cut.value) | ((logit == cut.value) & (id <= last_id));
    });
}

void keep_top_k(int32_t k, Candidates &candidates) {
    if (candidates.n > k) {
        keep_best(cut_by_rank(candidates.logits.data(), candidates.n, k), candidates);
    }
}

double sum(const float *weights, int32_t n) {
    constexpr int32_t kChains = 8;  // independent, so that no addition waits for the one before
    double sums[kChains] = {};
    int32_t i = 0;
    for (; i + kChains <= n; i += kChains) {
        for (int32_t chain = 0; chain < kChains; ++chain) {
            sums[chain] += weights[i + chain];
        }
    }
    for (; i < n; ++i) {
        sums[0] += weights[i];
    }
    return std::accumulate(sums, sums + kChains, 0.0);
}

// For weights above 0. A token's information is log(total) - x, where x is the logarithm of its
// weight; the entropy is the mean of that. The difference of the two is x's distance from its mean.
void keep_typical(float max, float scale, double typical_p, Candidates &candidates) {
    const auto log_weight = [=](float logit) { return (static_cast<double>(logit) - max) * scale; };
    const float *logits = candidates.logits.data();
    const float *weights = candidates.weights.data();
    const int32_t n = candidates.n;
    const double total = sum(weights, n);
    double mean = 0.0;
    for (int32_t i = 0; i < n; ++i) {
        mean += weights[i] / total * log_weight(logits[i]);
    }
    const auto closeness = [=](float logit) {
        return static_cast<float>(-std::fabs(log_weight(logit) - mean));
    };
    thread_local std::vector<float> values;
    values.resize(static_cast<size_t>(n));
    std::transform(logits, logits + n, values.begin(), closeness);
    const float last = cut_by_mass(values.data(), weights, n, typical_p * total).value;
    candidates.filter([=](float logit, float, int32_t) { return closeness(logit) >= last; });
}

// The filters after top-k, on candidates with weights. total, which only top-p asks for, is the
// weight of what top-k left, of which only tokens that these filters drop may be missing.
void filter(const Row &row, const Sampling &sampling, float scale, double total,
            Candidates &candidates) {
    if (sampling.top_p < 1.0f) {
        keep_best(cut_by_mass(candidates.logits.data(), candidates.weights.data(), candidates.n,
                              sampling.top_p * total),
                  candidates);
    }
    if (sampling.min_p > 0.0f || sampling.typical_p < 1.0f) {
        const float min_p = sampling.min_p;  // of the largest weight, which is 1
        candidates.filter(
            [=](float, float weight, int32_t) { return (weight >= min_p) & (weight > 0.0f); });
    }
    if (sampling.typical_p < 1.0f) {
        keep_typical(row.max(), scale, sampling.typical_p, candidates);
    }
}

// A bound on the logits of the tokens that top-p and min-p keep, where there is no top-k; lowest is
// one that others have set.
float filter_floor(Row &row, int32_t n_vocab, const Sampling &sampling, float scale, float lowest) {
    float floor = lowest;
    if (sampling.min_p > 0.0f) {
        const double nats = -std::log(static_cast<double>(sampling.min_p));
        floor = std::max(floor, below(row.max(), sampling.temperature, nats));
    }
    if (sampling.top_p < 1.0f) {
        // All tokens with less than an equal share of the mass that may go can go together.
        const double total = row.total(scale);
        const double nats = std::log(n_vocab / ((1.0 - sampling.top_p) * total));
        floor = std::max(floor, below(row.max(), sampling.temperature, nats));
        const double goal = sampling.top_p * total * (1.0 + kMargin);
        floor = std::max(floor, row.mass_floor(scale, goal, floor));
    }
    return floor;
}

// The distribution that n weights stand for; ids are the positions where there are none.
void normalise(const float *weights, const int32_t *ids, int32_t n, Distribution &out) {
    const double share = 1.0 / sum(weights, n);
    out.resize(static_cast<size_t>(n));
    Candidate *const candidates = out.data();
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; ++i) {
        candidates[n_kept] = {ids == nullptr ? i : ids[i], weights[i] * share};
        n_kept += weights[i] > 0.0f;
    }
    out.resize(static_cast<size_t>(n_kept));
}

// What the calls of a thread use again, so that they allocate nothing.
struct Scratch {
    Row row;
    Candidates candidates;
};

Scratch &scratch() {
    thread_local Scratch scratch;
    return scratch;
}

void shape_row(Row &row, Candidates &candidates, int32_t n_vocab, const Sampling &sampling,
               Distribution &out) {
    if (sampling.temperature == 0.0f) {
        out.assign(1, {row.best_id(), 1.0});
        return;
    }
    const float scale = std::min(1.0f / sampling.temperature, 1e38f);
    const float possible = below(row.max(), sampling.temperature, 87.0);
    if (sampling.top_k > 0 && sampling.top_k < n_vocab) {
        row.collect(row.rank_floor(sampling.top_k, possible), candidates);
        keep_top_k(sampling.top_k, candidates);
        filter(row, sampling, scale, row.weigh(scale, candidates), candidates);
    } else if (sampling.top_p < 1.0f || sampling.min_p > 0.0f || sampling.typical_p < 1.0f) {
        row.collect(filter_floor(row, n_vocab, sampling, scale, possible), candidates);
        row.weigh(scale, candidates);
        const double total = sampling.top_p < 1.0f ? row.total(scale) : 0.0;
        filter(row, sampling, scale, total, candidates);
    } else {
        candidates.reserve(n_vocab);
        row.weigh(scale, candidates.weights);
        normalise(candidates.weights.data(), nullptr, n_vocab, out);
        return;
    }
    normalise(candidates.weights.data(), candidates.ids.data(), candidates.n, out);
}

RowSummary summary_of(Row &row) { return {row.max(), std::log(row.total(1.0f))}; }

}  // namespace

void shape(const float *logits, int32_t n_vocab, const Sampling &sampling, Distribution &out,
           RowSummary *summary, const RowKernels &kernels) {
    auto &[row, candidates] = scratch();
    row.read(kernels, logits, n_vocab);
    shape_row(row, candidates, n_vocab, sampling, out);
    if (summary != nullptr) {
        *summary = summary_of(row);
    }
}

RowSummary summarise(const float *logits, int32_t n_vocab) {
    Row &row = scratch().row;
    row.read(best_row_kernels(), logits, n_vocab);
    return summary_of(row);
}

void best_tokens(const float *logits, int32_t n_vocab, int32_t n, const RowSummary &summary,
                 std::vector<TokenLogprob> &out) {
    auto &[row, candidates] = scratch();
    row.read(best_row_kernels(), logits, n_vocab);
    row.collect(row.rank_floor(n, kLowest), candidates);
    keep_top_k(n, candidates);
    // By logit: different logits can have log-probabilities that round to the same number.
    std::vector<int32_t> ranked(static_cast<size_t>(candidates.n));
    std::iota(ranked.begin(), ranked.end(), 0);
    std::stable_sort(
        ranked.begin(), ranked.end(),
        [&best = candidates.logits](int32_t a, int32_t b) { return best[a] > best[b]; });
    out.clear();
    for (const int32_t i : ranked) {
        out.push_back({candidates.ids[i], summary.log_probability(candidates.logits[i])});
    }
}

}  // namespace gc
