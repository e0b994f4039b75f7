// Distributions over the vocabulary and the acceptance of drafts: pure functions on rows of logits.

#pragma once

#include <cstdint>
#include <vector>

#include "random.h"

namespace gc {

struct Sampling {
    float temperature = 1.0f;
    int32_t top_k = 0;
    float top_p = 1.0f;
    float min_p = 0.0f;
};

struct Candidate {
    int32_t id;
    double p;
};

// A distribution as its support, in ascending order of token id; the probabilities sum to 1.
using Distribution = std::vector<Candidate>;

// The distribution a row of n_vocab logits stands for: temperature, then top-k, top-p and min-p.
// Temperature 0 is a point mass on the largest logit; equal logits rank by ascending id.
// Throws Error(GC_BAD_LOGITS) on NaN or when no logit is above -infinity.
void shape(const float *logits, int32_t n_vocab, const Sampling &sampling, Distribution &out);

double probability(const Distribution &distribution, int32_t id);

int32_t draw(const Distribution &distribution, Random &random);

// Natural log of the probability of id under the softmax of the row.
float log_probability(const float *logits, int32_t n_vocab, int32_t id);

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
