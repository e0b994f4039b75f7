#include "distribution.h"

#include <algorithm>

namespace gc {

double probability(const Distribution &distribution, int32_t id) {
    const auto found = std::lower_bound(
        distribution.begin(), distribution.end(), id,
        [](const Candidate &candidate, int32_t wanted) { return candidate.id < wanted; });
    return found != distribution.end() && found->id == id ? found->p : 0.0;
}

void sharpen(Distribution &distribution) {
    double total = 0.0;
    for (Candidate &candidate : distribution) {
        candidate.p *= candidate.p;
        total += candidate.p;
    }
    const auto vanished = [](const Candidate &candidate) { return candidate.p <= 0.0; };
    distribution.erase(std::remove_if(distribution.begin(), distribution.end(), vanished),
                       distribution.end());
    for (Candidate &candidate : distribution) {
        candidate.p /= total;
    }
}

int32_t draw(const Distribution &distribution, Random &random) {
    // Whole blocks are skipped by their sums, which four independent chains of additions give.
    constexpr size_t kBlock = 64;
    constexpr size_t kChains = 4;
    double left = random.uniform();
    auto begin = distribution.begin();
    while (static_cast<size_t>(distribution.end() - begin) > kBlock) {
        double sums[kChains] = {};
        for (size_t i = 0; i < kBlock; ++i) {
            sums[i % kChains] += begin[i].p;
        }
        const double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        if (left < sum) {
            break;
        }
        left -= sum;
        begin += kBlock;
    }
    for (; begin != distribution.end(); ++begin) {
        left -= begin->p;
        if (left < 0.0) {
            return begin->id;
        }
    }
    return distribution.back().id;  // rounding left a sliver above the sum
}

}  // namespace gc
