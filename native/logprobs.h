// Log-probabilities of a token and of the tokens that could have stood in its place.

#pragma once

#include <vector>

#include "distribution.h"
#include "gemmachat.h"
#include "shape.h"

namespace gc {

struct Logprobs {
    gc_logprob token;
    std::vector<gc_logprob> raw;    // most likely first, unfiltered
    std::vector<gc_logprob> final;  // most likely first, as they are drawn
};

// Of a token drawn after a row of logits, which p was made from. n alternatives of each kind.
Logprobs describe_logprobs(int32_t token, const float *logits, int32_t n_vocab,
                           const RowSummary &summary, const Distribution &p, int32_t n);

}  // namespace gc
