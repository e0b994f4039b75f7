// From a row of logits to the distribution it stands for: pure functions.

#pragma once

#include <cstdint>
#include <vector>

#include "distribution.h"
#include "row_kernels.h"

namespace gc {

struct Sampling {
    float temperature = 1.0f;
    int32_t top_k = 0;
    float top_p = 1.0f;
    float min_p = 0.0f;
    float typical_p = 1.0f;
};

// What turns a logit of a row into a log-probability at temperature 1.
struct RowSummary {
    float max;
    double log_total;  // log of the sum of exp(logit - max)

    float log_probability(float logit) const {
        return static_cast<float>(static_cast<double>(logit) - max - log_total);
    }
};

struct TokenLogprob {
    int32_t id;
    float logprob;
};

// The distribution a row of n_vocab logits stands for: temperature, then these filters, each of
// them on what the one before left, renormalised:
//   top-k      the k most likely tokens;
//   top-p      the fewest most likely tokens whose probabilities reach top_p;
//   min-p      tokens at least min_p times as likely as the most likely one;
//   typical-p  the fewest tokens whose information is closest to the entropy, and whose
//              probabilities reach typical_p (Meister et al. 2022, arXiv 2202.00666); tokens
//              exactly as close as the last of them stay too.
// Temperature 0 is a point mass on the largest logit. Otherwise equal logits rank by ascending id.
// Probabilities are good to 1e-6; a token e^87 times less likely than the most likely one has none.
// Every processor returns the same bits.
//
// Fills summary too unless it is null, which is cheaper than calling summarise. Throws
// Error(GC_BAD_LOGITS) on NaN or when the largest logit is infinite.
void shape(const float *logits, int32_t n_vocab, const Sampling &sampling, Distribution &out,
           RowSummary *summary = nullptr, const RowKernels &kernels = best_row_kernels());

RowSummary summarise(const float *logits, int32_t n_vocab);

// The n most likely tokens at temperature 1, unfiltered, the most likely first; fewer when fewer
// are possible. summary is the row's.
void best_tokens(const float *logits, int32_t n_vocab, int32_t n, const RowSummary &summary,
                 std::vector<TokenLogprob> &out);

}  // namespace gc
