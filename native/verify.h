// The acceptance of drafts: pure functions on rows of logits.

#pragma once

#include <cstdint>
#include <vector>

#include "distribution.h"
#include "shape.h"

namespace gc {

// A drafted token and the distribution it was drawn from.
struct Draft {
    int32_t token;
    Distribution q;
};

// Judges drafts against the target by token-wise speculative rejection sampling (Leviathan et al.
// 2023, arXiv 2211.17192; Chen et al. 2023, arXiv 2302.01318), which leaves the target's
// distribution exactly as it is. logits holds drafts.size() + 1 rows of n_vocab; row i is the
// target's answer at the place of draft i.
//
// A draft x is accepted with probability min(1, p(x)/q(x)). In place of the first rejected one a
// token is drawn from max(0, p - q), normalised; if none is rejected one more token is drawn from
// p. Fills tokens with the accepted drafts and that last token. Throws Error(GC_BAD_LOGITS).
void judge(const float *logits, int32_t n_vocab, const std::vector<Draft> &drafts,
           const Sampling &sampling, Random &random, std::vector<int32_t> &tokens);

}  // namespace gc
