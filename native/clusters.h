// Clusters of a drafter's tokens: their centres, by which a head finds the tokens that are worth
// scoring.

#pragma once

#include <cstdint>
#include <vector>

#include "gguf_file.h"

namespace gc {

struct Clusters {
    int32_t count;                  // clusters; all have equally many tokens
    int32_t top;                    // of them, the best are looked into
    std::vector<float> centroids;   // [count, width]
    std::vector<int32_t> ordering;  // [vocabulary]: the first cluster's tokens, the second's, ...

    int32_t size() const { return static_cast<int32_t>(ordering.size()) / count; }  // in tokens
};

// What is wrong with clusters for so many tokens and hidden rows of that width, null if nothing.
const char *problem_of(const Clusters &clusters, int32_t n_vocab, int32_t width);

// Metadata key of a drafter whose file has centroids.
constexpr char kCentroidCount[] = "gemma4-assistant.masked_embedding.centroid_count";

// The trained centroids of a drafter's file. Throws Error(GC_LOAD_FAILED).
Clusters trained_clusters(const GgufFile &file);

}  // namespace gc
