// The acceptance of drafts: which of them the target keeps, and what follows them.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "distribution.h"
#include "random.h"

namespace gc {

// A drafted token and the distribution it was drawn from.
struct Draft {
    int32_t token;
    Distribution q;
};

// Two ways to judge drafts that leave the target's distribution exactly as it is. Drafting may end
// early by any rule that looks only at the drafts so far, and drafts may be certain (q a point
// mass).
enum class Verification {
    // Speculative rejection sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et al. 2023,
    // arXiv 2302.01318): a draft x is kept with probability min(1, p(x)/q(x)), up to the first that
    // is not.
    kTokenWise,
    // Block verification (Sun et al. 2024, arXiv 2403.10444): what p has more of than q at one
    // place makes up for what it has less of at another. Keeps at least as many drafts on average.
    kBlock,
};

// Fills p with the target's distribution after the first n drafts. Asked in ascending order of n,
// and only as far as the answer matters.
using TargetAt = std::function<void(int32_t n, Distribution &p)>;

// Judges drafts: fills tokens with those that are kept, and one more that the target draws.
void judge(const std::vector<Draft> &drafts, const TargetAt &target_at, Verification verification,
           Random &random, std::vector<int32_t> &tokens);

// Everything judge can answer, by the number of drafts it keeps.
struct Outcome {
    double probability = 0.0;
    Distribution last;  // of the token after them; empty where the probability is 0
};

// The law of judge, from its own code: every way its decisions can go, with its probability.
// target_at is asked for every row, several times.
std::vector<Outcome> outcomes(const std::vector<Draft> &drafts, const TargetAt &target_at,
                              Verification verification);
// How many drafts judge keeps, by expectation: for every draft the chance that it is kept, given
// the drafts up to it. The mean over drafts is that of what judge keeps, with less noise.
double expected_kept(const std::vector<Draft> &drafts, const TargetAt &target_at,
                     Verification verification);

}  // namespace gc
