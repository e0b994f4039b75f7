// A drafter's LM head over clusters of tokens: the hidden row is scored against the clusters'
// centroids, and only the tokens of the best clusters get logits. That is how the centroids of
// Gemma 4's small drafters were trained. Any distribution may propose drafts, so leaving tokens out
// costs acceptance, never exactness.
//
// llama.cpp's own head does no more to these logits than the product with the embedding rows: a
// drafter has no soft cap.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "clusters.h"
#include "logit_row.h"
#include "table.h"

namespace gc {

// What a head reads. Sessions share it.
struct HeadWeights {
    // Throws Error(GC_LOAD_FAILED) where the clusters do not fit the drafter in the file.
    HeadWeights(const GgufFile &drafter, Clusters given);
    HeadWeights(const HeadWeights &) = delete;
    HeadWeights &operator=(const HeadWeights &) = delete;

    const Table embedding;   // [vocabulary, width]
    const Table projection;  // [width of a state, width]: from a hidden row to the next state
    const Clusters clusters;
    const Table centroids;  // [clusters, width]
};

class Head {
public:
    explicit Head(std::shared_ptr<const HeadWeights> weights);

    // Scores a hidden row, the drafter's last norm. Clusters as good as the last that is looked
    // into rank by ascending number. Throws Error(GC_BAD_LOGITS) where the row has no finite
    // scores.
    void score(const std::vector<float> &hidden);
    // Its candidates and their logits, until the next is scored.
    LogitRow logits();
    // Whether the likeliest of all tokens is among them; hidden is the row that was scored. Takes
    // as long as a head without clusters.
    bool has_best(const std::vector<float> &hidden);

    // The state that the drafter's next step starts from.
    void next_state(const std::vector<float> &hidden, std::vector<float> &state);

private:
    void choose_clusters();
    void list_candidates();

    const std::shared_ptr<const HeadWeights> weights_;
    Table::Encoded encoded_;
    std::vector<float> scores_;     // of the clusters
    std::vector<int32_t> chosen_;   // the best clusters
    std::vector<uint64_t> marked_;  // a bit for every token, 0 between calls
    std::vector<int32_t> ids_;      // the chosen clusters' tokens, ascending
    std::vector<float> logits_;
    std::vector<float> dense_;  // of all tokens, for has_best
};

}  // namespace gc
