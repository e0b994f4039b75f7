#include "shape.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.h"

namespace gc {

namespace {

struct Logit {
    float value;
    int32_t id;
};

// Most likely first; ties go to the smaller id, so that every run ranks alike.
bool ranks_before(const Logit &a, const Logit &b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

// The largest logit and its smallest id. Throws on rows that describe no distribution.
Logit find_max(const float *logits, int32_t n_vocab) {
    constexpr int32_t kLanes = 8;  // independent, so that compilers vectorise the loop
    float largest[kLanes];
    int32_t is_nan[kLanes] = {};
    std::fill(largest, largest + kLanes, -std::numeric_limits<float>::infinity());
    int32_t i = 0;
    for (; i + kLanes <= n_vocab; i += kLanes) {
        for (int32_t lane = 0; lane < kLanes; ++lane) {
            const float logit = logits[i + lane];
            largest[lane] = logit > largest[lane] ? logit : largest[lane];
            is_nan[lane] |= logit != logit;
        }
    }
    for (; i < n_vocab; ++i) {
        largest[0] = logits[i] > largest[0] ? logits[i] : largest[0];
        is_nan[0] |= logits[i] != logits[i];
    }
    const float best = *std::max_element(largest, largest + kLanes);
    if (std::any_of(is_nan, is_nan + kLanes, [](int32_t nan) { return nan != 0; }) ||
        std::isinf(best)) {
        throw Error(GC_BAD_LOGITS, "the logits are not finite numbers");
    }
    return {best, static_cast<int32_t>(std::find(logits, logits + n_vocab, best) - logits)};
}

// The k highest-ranked logits, in no particular order.
void keep_top_k(const float *logits, int32_t n_vocab, int32_t k, std::vector<Logit> &kept) {
    for (int32_t i = 0; i < n_vocab; ++i) {
        const Logit logit{logits[i], i};
        if (static_cast<int32_t>(kept.size()) < k) {
            kept.push_back(logit);
            std::push_heap(kept.begin(), kept.end(), ranks_before);
        } else if (ranks_before(logit, kept.front())) {
            std::pop_heap(kept.begin(), kept.end(), ranks_before);
            kept.back() = logit;
            std::push_heap(kept.begin(), kept.end(), ranks_before);
        }
    }
}

// Cuts to the shortest run of most likely candidates whose mass reaches top_p of the whole.
void keep_top_p(double top_p, Distribution &candidates) {
    const auto ranks_after = [](const Candidate &a, const Candidate &b) {
        return a.p < b.p || (a.p == b.p && a.id > b.id);
    };
    double total = 0.0;
    for (const Candidate &candidate : candidates) {
        total += candidate.p;
    }
    std::make_heap(candidates.begin(), candidates.end(), ranks_after);
    auto unranked = candidates.end();
    double mass = 0.0;
    while (unranked != candidates.begin() && mass < top_p * total) {
        std::pop_heap(candidates.begin(), unranked, ranks_after);
        mass += (--unranked)->p;
    }
    candidates.erase(candidates.begin(), unranked);
}

void normalise(Distribution &candidates) {
    double total = 0.0;
    for (const Candidate &candidate : candidates) {
        total += candidate.p;
    }
    for (Candidate &candidate : candidates) {
        candidate.p /= total;
    }
}

// exp for arguments <= 0 in plain arithmetic, so that compilers vectorise the loop that calls it:
// 2^n times a polynomial of the remainder (degree 6 Taylor in |r| <= ln2/2, error < 2e-7 relative).
inline float exp_negative(float x) {
    x = std::max(x, -87.0f);
    const float scaled = x * 1.44269504f;
    const int32_t n = static_cast<int32_t>(scaled - 0.5f);
    const float r =
        x - static_cast<float>(n) * 0.693359375f + static_cast<float>(n) * 2.12194440e-4f;
    const float poly =
        1.0f +
        r * (1.0f +
             r * (0.5f + r * (0.166666667f +
                              r * (0.0416666667f + r * (0.00833333333f + r * 0.00138888889f)))));
    const int32_t bits = (n + 127) << 23;
    float power;
    std::memcpy(&power, &bits, sizeof(power));
    return power * poly;
}

}  // namespace

void shape(const float *logits, int32_t n_vocab, const Sampling &sampling, Distribution &out) {
    out.clear();
    const Logit best = find_max(logits, n_vocab);
    if (sampling.temperature == 0.0f) {
        out.push_back({best.id, 1.0});
        return;
    }

    const auto weight = [&](float logit) {
        return std::exp((static_cast<double>(logit) - best.value) / sampling.temperature);
    };
    if (sampling.top_k > 0 && sampling.top_k < n_vocab) {
        thread_local std::vector<Logit> kept;
        kept.clear();
        keep_top_k(logits, n_vocab, sampling.top_k, kept);
        for (const Logit &logit : kept) {
            out.push_back({logit.id, weight(logit.value)});
        }
    } else {
        for (int32_t i = 0; i < n_vocab; ++i) {
            out.push_back({i, weight(logits[i])});
        }
    }
    if (sampling.top_p < 1.0f) {
        keep_top_p(sampling.top_p, out);
    }
    // The largest weight is 1 before normalisation, so min-p compares with min_p itself.
    out.erase(
        std::remove_if(out.begin(), out.end(),
                       [&](const Candidate &c) { return c.p < sampling.min_p || c.p == 0.0; }),
        out.end());
    std::sort(out.begin(), out.end(),
              [](const Candidate &a, const Candidate &b) { return a.id < b.id; });
    normalise(out);
}

float log_probability(const float *logits, int32_t n_vocab, int32_t id) {
    const float best = find_max(logits, n_vocab).value;
    double total = 0.0;
    constexpr int32_t kBlock = 1024;
    for (int32_t start = 0; start < n_vocab; start += kBlock) {
        const int32_t end = std::min(start + kBlock, n_vocab);
        float lanes[8] = {};
        int32_t i = start;
        for (; i + 8 <= end; i += 8) {
            for (int32_t lane = 0; lane < 8; ++lane) {
                lanes[lane] += exp_negative(logits[i + lane] - best);
            }
        }
        for (; i < end; ++i) {
            lanes[0] += exp_negative(logits[i] - best);
        }
        for (const float lane : lanes) {
            total += lane;
        }
    }
    return static_cast<float>(logits[id] - best - std::log(total));
}

}  // namespace gc
