// A row of logits, read once: its maxima by block tell which blocks the likely tokens are in.

#pragma once

#include <cstdint>
#include <vector>

#include "row_kernels.h"

namespace gc {

// Tokens of a row in ascending order of id. The arrays are as long as the row, and longer.
struct Candidates {
    int32_t n = 0;
    std::vector<int32_t> ids;
    std::vector<float> logits;
    std::vector<float> weights;  // exp((logit - largest) * scale)

    void reserve(int32_t n_vocab);

    // Drops those for which keep(logit, weight, id) is false. The order stays.
    template <typename Keep>
    void filter(Keep keep) {
        int32_t *const id = ids.data();
        float *const logit = logits.data();
        float *const weight = weights.data();
        const int32_t n_before = n;
        int32_t n_kept = 0;
        for (int32_t i = 0; i < n_before; ++i) {
            const int32_t this_id = id[i];
            const float this_logit = logit[i];
            const float this_weight = weight[i];
            id[n_kept] = this_id;
            logit[n_kept] = this_logit;
            weight[n_kept] = this_weight;
            n_kept += keep(this_logit, this_weight, this_id);
        }
        n = n_kept;
    }
};

class Row {
public:
    // Finds the maxima. Throws Error(GC_BAD_LOGITS) on NaN or when the largest logit is infinite.
    void read(const RowKernels &kernels, const float *logits, int32_t n_vocab);

    float max() const { return max_; }
    int32_t best_id() const;  // of the largest logit, the smallest

    // Sum of all weights.
    double total(float scale);
    // The same, and weights receives them.
    double weigh(float scale, std::vector<float> &weights);

    // A bound that the k largest logits reach, unless they are below lowest.
    float rank_floor(int32_t k, float lowest) const;
    // A bound above lowest such that the weights of the logits that reach it add up to goal;
    // lowest if it knows none.
    float mass_floor(float scale, double goal, float lowest);

    // The tokens whose logits reach floor; their weights are not set.
    void collect(float floor, Candidates &candidates) const;

    // Sets the weights of candidates and returns their sum.
    double weigh(float scale, Candidates &candidates) const;

private:
    double weigh_blocks(float scale, float *weights);

    const RowKernels *kernels_ = nullptr;
    const float *logits_ = nullptr;
    int32_t n_vocab_ = 0;
    int32_t n_whole_ = 0;              // blocks that the row fills
    float tail_[kBlock];               // what is left of the row, filled up with -infinity
    std::vector<float> block_max_;     // filled up to whole blocks with -infinity
    std::vector<float> block_weight_;  // scratch
    float max_ = 0.0f;
    float total_scale_ = -1.0f;  // of the total that is known
    double total_ = 0.0;
};

}  // namespace gc
