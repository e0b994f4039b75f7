#include "distribution.h"

#include <algorithm>

namespace gc {

double probability(const Distribution &distribution, int32_t id) {
    const auto found = std::lower_bound(
        distribution.begin(), distribution.end(), id,
        [](const Candidate &candidate, int32_t wanted) { return candidate.id < wanted; });
    return found != distribution.end() && found->id == id ? found->p : 0.0;
}

int32_t draw(const Distribution &distribution, Random &random) {
    double left = random.uniform();
    for (const Candidate &candidate : distribution) {
        left -= candidate.p;
        if (left < 0.0) {
            return candidate.id;
        }
    }
    return distribution.back().id;  // rounding left a sliver above the sum
}

}  // namespace gc
