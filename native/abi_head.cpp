// The part of the C boundary that concerns the drafter's head, and rows of some tokens' logits.

#include <algorithm>
#include <vector>

#include "boundary.h"
#include "clustering.h"
#include "clusters.h"
#include "gemmachat_head.h"
#include "handles.h"
#include "head.h"

namespace {

gc::Head head_of(const gc_engine *engine) {
    gc::require(engine->impl->head() != nullptr, "the drafter has no clusters");
    return gc::Head(engine->impl->head());
}

std::vector<float> row_of(const gc_engine *engine, const float *hidden, int32_t index) {
    const auto width = static_cast<size_t>(engine->impl->head()->embedding.width());
    return {hidden + index * width, hidden + (index + 1) * width};
}

}  // namespace

gc_status gc_engine_set_clusters(gc_engine *engine, const gc_clusters *clusters) {
    return gc::guarded([&] {
        gc::require(engine != nullptr && clusters != nullptr && clusters->centroids != nullptr &&
                        clusters->ordering != nullptr && clusters->n_centroid_items >= 0 &&
                        clusters->n_tokens >= 0,
                    "clusters are needed");
        engine->impl->set_clusters(
            {clusters->count,
             clusters->top,
             {clusters->centroids, clusters->centroids + clusters->n_centroid_items},
             {clusters->ordering, clusters->ordering + clusters->n_tokens}});
    });
}

bool gc_engine_has_clusters(const gc_engine *engine) { return engine->impl->head() != nullptr; }

gc_status gc_cluster_tokens(const char *drafter_path, int32_t descriptor, int32_t count,
                            const volatile bool *stop, float *centroids, int32_t n_centroid_items,
                            int32_t *ordering, int32_t n_tokens) {
    return gc::guarded([&] {
        gc::require(drafter_path != nullptr && stop != nullptr && centroids != nullptr &&
                        ordering != nullptr,
                    "a path and places are needed");
        ggml_cpu_init();
        const gc::Table rows =
            gc::GgufFile(gc::MappedFile(drafter_path, descriptor)).table("token_embd.weight");
        gc::require(count >= 1 && rows.n_rows() % count == 0,
                    "the number of clusters must divide the vocabulary");
        gc::require(n_tokens == rows.n_rows() &&
                        n_centroid_items == static_cast<int64_t>(count) * rows.width(),
                    "the places are of another size than the embedding");
        gc::cluster_rows(rows, count, [stop] { return *stop; }, centroids, ordering);
    });
}

gc_status gc_head_score(const gc_engine *engine, const float *hidden, int32_t *ids, float *logits,
                        int32_t capacity, int32_t *n_out, float *next_state) {
    return gc::guarded([&] {
        gc::require(engine != nullptr && hidden != nullptr, "a hidden row is needed");
        gc::Head head = head_of(engine);
        const std::vector<float> row = row_of(engine, hidden, 0);
        head.score(row);
        const gc::LogitRow scored = head.logits();
        *n_out = scored.n;
        std::copy_n(scored.ids, std::min(scored.n, capacity), ids);
        std::copy_n(scored.logits, std::min(scored.n, capacity), logits);
        if (next_state != nullptr) {
            std::vector<float> state(
                static_cast<size_t>(engine->impl->head()->projection.n_rows()));
            head.next_state(row, state);
            std::copy(state.begin(), state.end(), next_state);
        }
    });
}

gc_status gc_head_recall(const gc_engine *engine, const float *hidden, int32_t n_rows,
                         int32_t *n_found) {
    return gc::guarded([&] {
        gc::require(engine != nullptr && hidden != nullptr && n_rows >= 0,
                    "hidden rows are needed");
        gc::Head head = head_of(engine);
        *n_found = 0;
        for (int32_t i = 0; i < n_rows; ++i) {
            const std::vector<float> row = row_of(engine, hidden, i);
            head.score(row);
            *n_found += head.has_best(row);
        }
    });
}

gc_status gc_sample_row(const gc_engine *engine, const gc_sampling *sampling, const int32_t *tokens,
                        int32_t n_prompt, int32_t n_answer, const int32_t *ids, const float *logits,
                        int32_t n, int32_t *out, double *probabilities, int32_t capacity,
                        int32_t *n_out) {
    return gc::guarded([&] {
        gc::require(engine != nullptr && sampling != nullptr && logits != nullptr && n >= 1 &&
                        n_prompt >= 0 && n_answer >= 0 &&
                        (tokens != nullptr || n_prompt + n_answer == 0),
                    "sampling parameters and logits are needed");
        gc::check(*sampling);
        gc::require(ids != nullptr || n == engine->impl->vocab_size(),
                    "a row without ids has a logit for every token");
        gc::Sampler sampler(*engine->impl,
                            gc::sampler_options(*sampling, engine->impl->vocab_size()));
        sampler.begin({tokens, tokens + n_prompt});
        std::for_each(tokens + n_prompt, tokens + n_prompt + n_answer,
                      [&](int32_t token) { sampler.commit(token); });
        std::vector<float> row(logits, logits + n);
        gc::Distribution p;
        sampler.distribution({row.data(), n, ids}, p);
        *n_out = static_cast<int32_t>(p.size());
        for (int32_t i = 0; i < std::min(*n_out, capacity); ++i) {
            out[i] = p[i].id;
            probabilities[i] = p[i].p;
        }
    });
}
