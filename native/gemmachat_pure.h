// The part of the C interface that needs no model: what decides about tokens and drafts, on given
// numbers. Tests hold it against references.

#ifndef GEMMACHAT_PURE_H
#define GEMMACHAT_PURE_H

#include "gemmachat.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- verification alone -------------------------------------------------------------------------

// One round on given logits, without a model: n_draft rows of drafter logits, from which the drafts
// are drawn, and n_draft + 1 rows of target logits, each of n_vocab floats. Repeats it n_rounds
// times on one random stream; round r writes its count to n_out[r] and its tokens to
// out[r * GC_MAX_WIDTH ...].
GC_API gc_status gc_verify_rounds(const float *target_logits, const float *drafter_logits,
                                  int32_t n_draft, int32_t n_vocab, const gc_sampling *sampling,
                                  bool token_wise, int32_t n_rounds, int32_t *out, int32_t *n_out);
// The law of one round on given drafts: n_draft rows of q, the distributions they were drawn from,
// and n_draft + 1 rows of p, the target's, each of n_vocab probabilities. For n = 0 ... n_draft
// writes the probability that n drafts are accepted to accepted[n], and the distribution of the
// token that then follows to last[n * n_vocab ...]: zeros where that never happens.
GC_API gc_status gc_verify_law(const double *p, const double *q, const int32_t *drafts,
                               int32_t n_draft, int32_t n_vocab, bool token_wise, double *accepted,
                               double *last);

// The distribution that sampling makes of one row of n_vocab logits, for tests: n_out ids,
// ascending, and their probabilities, of which up to capacity are written. variant names the code
// that reads the row, "portable", "avx2" or "avx512"; NULL is the best for this processor.
// log_total, unless NULL, receives the natural log of the sum of exp(logit - largest logit).
GC_API gc_status gc_shape_row(const float *logits, int32_t n_vocab, const gc_sampling *sampling,
                              const char *variant, int32_t *ids, double *probabilities,
                              int32_t capacity, int32_t *n_out, double *log_total);
// The n most likely tokens of a row, the most likely first, and their log-probabilities at
// temperature 1, for tests.
GC_API gc_status gc_best_tokens(const float *logits, int32_t n_vocab, int32_t n, int32_t *ids,
                                float *logprobs, int32_t *n_out);

// ---- drafting alone, for tests ------------------------------------------------------------------

// The schedule of draft lengths; native/schedule.h says what each call means.
typedef struct gc_schedule gc_schedule;

GC_API gc_status gc_schedule_new(const gc_schedule_state *saved, bool one_width, bool learns_costs,
                                 gc_schedule **schedule);
GC_API void gc_schedule_free(gc_schedule *schedule);
// *source: 0 for none, 1 for the drafter, 2 for *n_drafts copied tokens.
GC_API gc_status gc_schedule_begin(gc_schedule *schedule, int32_t drafter, int32_t copied,
                                   int32_t n_alike, int32_t *source, int32_t *n_drafts);
GC_API bool gc_schedule_wants_step(gc_schedule *schedule);
GC_API bool gc_schedule_wants_draw(gc_schedule *schedule, double confidence);
GC_API int32_t gc_schedule_width(const gc_schedule *schedule, int32_t n_drafts);
GC_API gc_status gc_schedule_end(gc_schedule *schedule, int32_t n_drafts, int32_t n_accepted,
                                 int32_t n_copied, int32_t n_compared);
GC_API gc_status gc_schedule_measured_pass(gc_schedule *schedule, int32_t width, double seconds);
GC_API void gc_schedule_measured_step(gc_schedule *schedule, double seconds);
GC_API void gc_schedule_save(const gc_schedule *schedule, gc_schedule_state *state);
// The number of drafts with the most expected tokens per cost: pass holds GC_MAX_WIDTH costs,
// acceptance max_drafts chances.
GC_API gc_status gc_best_choice(const double *pass, double step, const double *acceptance,
                                int32_t max_drafts, int32_t *n_drafts, double *rate);

// Takes pages of a file's view out of memory, see native/kernels/mapped_pages.h.
GC_API void gc_drop_mapped_pages(const void *begin, uint64_t size);

// The index of a timeline's repetitions, see native/ngram.h.
typedef struct gc_ngram gc_ngram;

GC_API gc_status gc_ngram_new(gc_ngram **index);
GC_API void gc_ngram_free(gc_ngram *index);
GC_API gc_status gc_ngram_append(gc_ngram *index, const int32_t *tokens, int32_t n_tokens);
GC_API void gc_ngram_cut(gc_ngram *index, int32_t n_tokens);
// Up to max_tokens tokens that may follow; *n_alike is how many before them are those at the end.
GC_API gc_status gc_ngram_find(const gc_ngram *index, int32_t max_tokens, int32_t *tokens,
                               int32_t *n_tokens, int32_t *n_alike);

// ---- products of quantized matrices alone, for tests and benchmarks
// ------------------------------

// A weight matrix packed for one of the kernels in native/kernels.
typedef struct gc_matrix gc_matrix;

// instructions names the kernel's instruction set, see native/kernels/kernel.h; NULL is the one
// that find_kernel chooses. rows holds n rows of k weights of a ggml type as files hold them.
// GC_BAD_ARGUMENT if there is no such kernel here or it does not take these sizes.
GC_API gc_status gc_matrix_new(const char *instructions, int32_t type, const void *rows, int64_t k,
                               int64_t n, gc_matrix **matrix);
GC_API void gc_matrix_free(gc_matrix *matrix);
// One matrix after the other times the same m rows of x, each of k floats, on n_threads threads
// that share the groups of each matrix. The m rows of n results of the first come first. *seconds,
// unless NULL, receives the time without starting the threads.
GC_API gc_status gc_matrix_multiply(const gc_matrix *const *matrices, int32_t n_matrices,
                                    const float *x, int64_t m, int32_t n_threads, float *out,
                                    double *seconds);

#ifdef __cplusplus
}
#endif

#endif
