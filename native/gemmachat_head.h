// The part of the C interface that concerns a drafter's LM head over clusters of tokens, and the
// rows of some tokens' logits that it makes.

#ifndef GEMMACHAT_HEAD_H
#define GEMMACHAT_HEAD_H

#include "gemmachat.h"

#ifdef __cplusplus
extern "C" {
#endif

// Clusters of a drafter's tokens, all of one size. A drafter scores the tokens of the best ones.
typedef struct gc_clusters {
    int32_t count;
    int32_t top;               // how many are the best
    const float *centroids;    // count rows as wide as the drafter
    const int32_t *ordering;   // every token once: those of the first cluster, of the second, ...
    int32_t n_centroid_items;  // numbers in centroids
    int32_t n_tokens;          // numbers in ordering
} gc_clusters;

// Gives the engine's drafter these clusters in place of those in its file, if it has any there, for
// the sessions that are opened from now on. GC_LOAD_FAILED where they do not fit.
GC_API gc_status gc_engine_set_clusters(gc_engine *engine, const gc_clusters *clusters);
// Whether sessions that are opened now draft from the best clusters.
GC_API bool gc_engine_has_clusters(const gc_engine *engine);
// Groups the tokens of a drafter's file, open for reading as descriptor, by their embedding rows;
// count divides the vocabulary. The path names the file in errors. Takes seconds, and stops with
// GC_CANCELLED soon after *stop became true. Needs no engine.
GC_API gc_status gc_cluster_tokens(const char *drafter_path, int32_t descriptor, int32_t count,
                                   const volatile bool *stop, float *centroids,
                                   int32_t n_centroid_items, int32_t *ordering, int32_t n_tokens);

// What the head makes of one hidden row, as wide as the drafter, for tests: the tokens of the best
// clusters, ascending, and their logits, of which up to capacity are written; *n_out is how many
// there are. next_state, unless NULL, has room for a hidden row of the target.
GC_API gc_status gc_head_score(const gc_engine *engine, const float *hidden, int32_t *ids,
                               float *logits, int32_t capacity, int32_t *n_out, float *next_state);
// In how many of n_rows hidden rows the likeliest token of all is among those that the head scores.
GC_API gc_status gc_head_recall(const gc_engine *engine, const float *hidden, int32_t n_rows,
                                int32_t *n_found);

// The distribution that sampling makes of logits behind a prompt and an answer so far, for tests:
// tokens holds both. ids names the tokens that the n logits belong to, ascending; NULL: all.
// Writes up to capacity tokens, ascending, and their probabilities; *n_out is how many there are.
GC_API gc_status gc_sample_row(const gc_engine *engine, const gc_sampling *sampling,
                               const int32_t *tokens, int32_t n_prompt, int32_t n_answer,
                               const int32_t *ids, const float *logits, int32_t n, int32_t *out,
                               double *probabilities, int32_t capacity, int32_t *n_out);

#ifdef __cplusplus
}
#endif

#endif
