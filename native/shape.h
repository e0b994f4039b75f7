// From a row of logits to the distribution it stands for: pure functions.

#pragma once

#include <cstdint>

#include "distribution.h"

namespace gc {

struct Sampling {
    float temperature = 1.0f;
    int32_t top_k = 0;
    float top_p = 1.0f;
    float min_p = 0.0f;
};

// The distribution a row of n_vocab logits stands for: temperature, then top-k, top-p and min-p.
// Temperature 0 is a point mass on the largest logit; equal logits rank by ascending id.
// Throws Error(GC_BAD_LOGITS) on NaN or when no logit is above -infinity.
void shape(const float *logits, int32_t n_vocab, const Sampling &sampling, Distribution &out);

// Natural log of the probability of id under the softmax of the row.
float log_probability(const float *logits, int32_t n_vocab, int32_t id);

}  // namespace gc
