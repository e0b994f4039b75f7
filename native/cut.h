// Where a list ends when its best are kept: selection without sorting.

#pragma once

#include <cstdint>

namespace gc {

// Keeps every value above this one, and the first n_equal of those that equal it.
struct Cut {
    float value;
    int32_t n_equal;
};

// The shortest run of largest values whose weights add up to goal; equal values rank by position.
// All are kept when the weights fall short of it. The values are finite, the weights not negative,
// n >= 1, goal > 0. Takes time linear in n: a histogram finds the bin where the run ends, and that
// bin's values get a histogram of their own, until they are all equal.
Cut cut_by_mass(const float *values, const float *weights, int32_t n, double goal);

// The k largest values.
Cut cut_by_rank(const float *values, int32_t n, int32_t k);

}  // namespace gc
