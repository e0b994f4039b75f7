#include "clusters.h"

#include <algorithm>
#include <cmath>

namespace gc {

namespace {

bool is_permutation_of_tokens(const std::vector<int32_t> &ordering) {
    std::vector<bool> seen(ordering.size());
    for (const int32_t token : ordering) {
        if (token < 0 || static_cast<size_t>(token) >= ordering.size() || seen[token]) {
            return false;
        }
        seen[token] = true;
    }
    return true;
}

int32_t small(uint32_t number) { return static_cast<int32_t>(std::min(number, 1u << 30)); }

}  // namespace

const char *problem_of(const Clusters &clusters, int32_t n_vocab, int32_t width) {
    if (clusters.count < 1 || n_vocab % clusters.count != 0 || clusters.top < 1 ||
        clusters.top > clusters.count) {
        return "has a number of centroids that does not fit its vocabulary";
    }
    if (clusters.centroids.size() != static_cast<size_t>(clusters.count) * width ||
        clusters.ordering.size() != static_cast<size_t>(n_vocab)) {
        return "has centroids of another size than its embedding";
    }
    if (!std::all_of(clusters.centroids.begin(), clusters.centroids.end(),
                     [](float x) { return std::isfinite(x); })) {
        return "has a centroid that is no finite number";
    }
    if (!is_permutation_of_tokens(clusters.ordering)) {
        return "does not assign every token to exactly one centroid";
    }
    return nullptr;
}

Clusters trained_clusters(const GgufFile &file) {
    Clusters clusters;
    clusters.count = small(file.number(kCentroidCount));
    clusters.top = small(file.number("gemma4-assistant.masked_embedding.centroid_top_k"));
    clusters.centroids = file.floats("gemma4-assistant.masked_embedding.centroids");
    clusters.ordering = file.integers("gemma4-assistant.masked_embedding.token_ordering");
    return clusters;
}

}  // namespace gc
