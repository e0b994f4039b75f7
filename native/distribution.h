// A distribution over the vocabulary.

#pragma once

#include <cstdint>
#include <vector>

#include "random.h"

namespace gc {

struct Candidate {
    int32_t id;
    double p;
};

// Its support, in ascending order of token id; the probabilities sum to 1.
using Distribution = std::vector<Candidate>;

double probability(const Distribution &distribution, int32_t id);

// Squares every probability: what is likely becomes likelier. What falls to 0 is left out.
void sharpen(Distribution &distribution);

int32_t draw(const Distribution &distribution, Random &random);

}  // namespace gc
