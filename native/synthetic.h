// Acceptance by decree, for benchmarks on synthetic weights, whose drafts no target would accept.
// What comes out is meaningless; the work is nearly that of a real round.

#pragma once

#include <vector>

#include "verify.h"

namespace gc {

// As judge, but every draft after accepted ones is accepted with the given probability.
inline void judge_by_decree(const std::vector<Draft> &drafts, const TargetAt &target_at,
                            double acceptance, Random &random, std::vector<int32_t> &tokens) {
    tokens.clear();
    Distribution p;
    for (const Draft &draft : drafts) {
        target_at(static_cast<int32_t>(tokens.size()), p);
        if (random.uniform() >= acceptance) {
            break;
        }
        tokens.push_back(draft.token);
    }
    if (tokens.size() == drafts.size()) {
        target_at(static_cast<int32_t>(tokens.size()), p);
    }
    tokens.push_back(draw(p, random));
}

}  // namespace gc
