// The C interface of libgemmachat: a Gemma 4 target and its MTP drafter on llama.cpp.
//
// An engine is a loaded pair of models. A session is one timeline of tokens on an engine: its
// caller passes full token prefixes and receives tokens; positions, KV cells and logits stay
// inside. Every function that can fail returns a gc_status, and gc_last_error() then says why.
// Handles may be used from any thread, by one thread at a time; gc_session_cancel alone may be
// called while another thread is inside the session.
//
// gemmachat_head.h and gemmachat_pure.h hold the rest of the interface.

#ifndef GEMMACHAT_H
#define GEMMACHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GC_API __attribute__((visibility("default")))

#define GC_ABI_VERSION 10

// Most tokens drafted in one round, and the rows of one verification pass that this needs.
#define GC_MAX_DRAFT 7
#define GC_MAX_WIDTH (GC_MAX_DRAFT + 1)

#define GC_MAX_LOGPROBS 20

typedef enum gc_status {
    GC_OK = 0,
    GC_CANCELLED = 1,      // gc_session_cancel was called
    GC_BAD_ARGUMENT = 2,   // the caller passed something that makes no sense
    GC_LOAD_FAILED = 3,    // llama.cpp refused a model file
    GC_OUT_OF_MEMORY = 4,  // an allocation failed
    GC_CONTEXT_FULL = 5,   // the tokens do not fit into the session's context
    GC_DECODE_FAILED = 6,  // llama.cpp failed inside a pass
    GC_BAD_LOGITS = 7,     // NaN, or nothing above -infinity: a model file is damaged
    GC_INTERNAL = 8,       // anything else
    GC_NO_TOKEN = 9,       // bans or grammar leave no token that could come next
    GC_TOO_COMPLEX = 10    // the text can be read in too many ways under the grammar
} gc_status;

typedef struct gc_engine gc_engine;
typedef struct gc_session gc_session;

GC_API uint32_t gc_abi_version(void);
// The llama-cpp-python release whose headers this library was compiled with.
GC_API const char *gc_built_for(void);
// What the last failed call on this thread has to say: one sentence, never NULL.
GC_API const char *gc_last_error(void);

// ---- matrix kernels -----------------------------------------------------------------------------

// Plugs our own matrix kernels into the llama.cpp of this process: the fastest that this processor
// runs, or those of one instruction set that native/kernels/kernel.h names. The first call decides,
// and false says that there are none. It must come before llama.cpp has loaded any model, or it has
// no effect, and while llama.cpp computes nothing. Engines use them if they are told so.
GC_API bool gc_kernels_install(const char *instructions);
GC_API bool gc_kernels_installed(void);
// Their names, or why they are not installed; never NULL.
GC_API const char *gc_kernels_status(void);

typedef enum gc_kernels {
    GC_KERNELS_AUTO = 0,  // our own where they gain
    GC_KERNELS_GGML = 1   // ggml's alone
} gc_kernels;

// ---- engine -------------------------------------------------------------------------------------

// Loads a target and, unless drafter_path is NULL, its drafter.
GC_API gc_status gc_engine_load(const char *target_path, const char *drafter_path,
                                gc_kernels kernels, gc_engine **engine);
// Bytes of the files' weights that our own kernels multiply.
GC_API int64_t gc_packed_bytes(const gc_engine *engine);
// Sessions go on: they share the models, which the last of them frees.
GC_API void gc_engine_free(gc_engine *engine);

GC_API int32_t gc_vocab_size(const gc_engine *engine);
GC_API int32_t gc_context_length(const gc_engine *engine);
GC_API int32_t gc_layer_count(const gc_engine *engine);
// The first layer that prefill leaves out: from there on layers own no keys and values.
// gc_layer_count if every layer owns some.
GC_API int32_t gc_first_skipped_layer(const gc_engine *engine);

// The target's chat template, NULL if its file has none. Lives as long as the engine.
GC_API const char *gc_chat_template(const gc_engine *engine);

// The id of the control token that is spelled so, -1 if there is none.
GC_API int32_t gc_control_token(const gc_engine *engine, const char *spelling);
// Tokenizes UTF-8 text as plain content: the spelling of a control token is text like any other.
// Writes up to capacity ids; *n_tokens is the full count either way.
GC_API gc_status gc_tokenize(const gc_engine *engine, const char *text, int32_t n_bytes,
                             int32_t *tokens, int32_t capacity, int32_t *n_tokens);
// The bytes a token stands for; none for a control token. Writes up to capacity bytes.
GC_API gc_status gc_token_piece(const gc_engine *engine, int32_t token, char *bytes,
                                int32_t capacity, int32_t *n_bytes);
// True for a token that ends the model's turn.
GC_API bool gc_token_is_end(const gc_engine *engine, int32_t token);

// GC_OK for a GBNF grammar that an answer can follow, else GC_BAD_ARGUMENT or GC_TOO_COMPLEX.
GC_API gc_status gc_grammar_check(const char *grammar);
// The tokens that may come next, ascending, after n_tokens tokens that follow a GBNF grammar: up to
// capacity of them; *n_out is how many there are.
GC_API gc_status gc_grammar_allowed(const gc_engine *engine, const char *grammar,
                                    const int32_t *tokens, int32_t n_tokens, int32_t *ids,
                                    int32_t capacity, int32_t *n_out);
// Follows a GBNF grammar with up to max_tokens allowed tokens drawn evenly. GC_BAD_ARGUMENT where
// it cannot be read, GC_NO_TOKEN where it gets stuck. tokens needs max_tokens places.
GC_API gc_status gc_grammar_walk(const gc_engine *engine, const char *grammar, uint64_t seed,
                                 int32_t max_tokens, int32_t *tokens, int32_t *n_tokens);

// ---- session ------------------------------------------------------------------------------------

typedef enum gc_kv_type { GC_KV_F16 = 0, GC_KV_Q8_0 = 1 } gc_kv_type;
typedef enum gc_flash_attention {
    GC_FLASH_AUTO = 0,  // where llama.cpp supports it
    GC_FLASH_OFF = 1,
    GC_FLASH_ON = 2
} gc_flash_attention;

typedef struct gc_session_params {
    int32_t n_ctx;            // tokens the session can hold
    int32_t n_threads;        // threads of a pass
    int32_t kv_type;          // gc_kv_type: how keys and values are stored
    int32_t flash_attention;  // gc_flash_attention; GC_KV_Q8_0 needs it
    bool exact;               // every pass after prefill runs at GC_MAX_WIDTH rows
    bool token_wise;          // verify drafts one by one, not as a block: to compare the two
    bool trace_logits;        // fill gc_token.logits_hash
    bool trace_acceptance;    // fill the expectations of gc_stats
    bool trace_recall;        // fill recalled of gc_stats, which makes drafts slow
    bool no_early_exit;       // prefill computes every layer, in the same passes: to compare
    bool dense_head;          // draft from the whole vocabulary, not from the best clusters
    // The graph's node after which a prefill pass ends, for tests; NULL: the right one.
    const char *exit_node;
} gc_session_params;

typedef struct gc_logit_bias {
    int32_t token;
    float value;  // added to the token's logit; -infinity bans it
} gc_logit_bias;

// How tokens are drawn; native/sampler.h says in which order and what each field means.
typedef struct gc_sampling {
    float temperature;      // 0: greedy
    int32_t top_k;          // 0: all
    float top_p;            // 1: all
    float min_p;            // 0: all
    float typical_p;        // 1: all
    float repeat_penalty;   // 1: none
    int32_t repeat_window;  // -1: all
    float presence_penalty;
    float frequency_penalty;
    int32_t min_tokens;
    const gc_logit_bias *bias;
    int32_t n_bias;
    const char *grammar;  // GBNF; NULL: none
    // The grammar waits while a thought is open between these tokens; -1: there is no thought.
    int32_t thought_open;
    int32_t thought_close;
    int32_t n_logprobs;  // keep so many alternatives for every token, at most GC_MAX_LOGPROBS
    uint64_t seed;
    // The text must follow from seed, prompt and settings. Drafting then goes by what
    // gc_session_set_schedule gave, and by nothing that was measured since.
    bool repeatable;
} gc_sampling;

// A token and the natural log of its probability: under the target's softmax at temperature 1,
// unfiltered, and under the distribution that tokens are drawn from, -infinity outside of it.
typedef struct gc_logprob {
    int32_t token;
    float raw;
    float final;
} gc_logprob;

typedef struct gc_token {
    int32_t id;
    bool from_draft;       // drafted and accepted, not drawn from the target
    float logprob;         // natural log under the target's softmax at temperature 1, unfiltered
    uint64_t logits_hash;  // of the target's logits row that decided the token, when traced
} gc_token;

// Totals since the last gc_session_sync. Times in seconds.
typedef struct gc_stats {
    int64_t cached_tokens;     // of the synced prompt, found in the KV cache
    int64_t prefilled_tokens;  // of it, computed by gc_session_sync
    int64_t exited_tokens;     // of them, in passes that left out the layers that may be
    int64_t rounds;            // verification passes
    int64_t parked_rounds;     // of them, in which the drafter was not asked as it would not pay
    int64_t drafter_rounds;    // of them, in which the schedule asked the drafter
    int64_t copied_rounds;     // of them, whose drafts were copied from an earlier place
    int64_t drafted;
    int64_t clustered;  // of them, drawn from the best clusters, not from the whole vocabulary
    int64_t recalled;   // of them, whose likeliest token of all was in those clusters
    int64_t accepted;
    int64_t drafted_by_position[GC_MAX_DRAFT];
    int64_t accepted_by_position[GC_MAX_DRAFT];
    int64_t copied_drafted;  // of drafted
    int64_t copied_accepted;
    int64_t rounds_by_width[GC_MAX_WIDTH];  // rounds that the schedule decided about
    double pass_cost[GC_MAX_WIDTH];         // what it takes a pass to cost, in passes of one row
    double step_cost;                       // and drafting one token
    // When traced: for every draft the probability that it is accepted, given the drafts up to it,
    // under each kind of verification. Their sums have the mean of accepted and less noise.
    double expected_block;
    double expected_token_wise;
    double prefill_s;
    double draft_s;
    double verify_s;
    double sample_s;
} gc_stats;

// What a session has learned about drafting, for the next one on this machine with these models.
typedef struct gc_schedule_state {
    double pass_s[GC_MAX_WIDTH];      // seconds of a pass of 1, 2, ... rows; 0: unknown
    double step_s;                    // seconds of drafting one token; 0: unknown
    double acceptance[GC_MAX_DRAFT];  // of each draft, given those before it; 0: unknown
} gc_schedule_state;

// The bookkeeping of a session, for tests and diagnostics.
typedef struct gc_inspection {
    int64_t n_committed;   // tokens of the timeline
    int64_t n_cached;      // of them, in the KV cache: all but the last
    int64_t position_max;  // largest position that llama.cpp's memory holds, -1 if empty
    uint64_t state_bytes;  // size of the sequence's state in llama.cpp: grows with every cell
    bool has_hidden;       // the hidden row that produced the last token is known
    uint64_t hidden_hash;  // of that row, 0 if unknown
} gc_inspection;

GC_API gc_status gc_session_new(gc_engine *engine, const gc_session_params *params,
                                gc_session **session);
GC_API void gc_session_free(gc_session *session);

// Makes the timeline equal to these tokens: keeps the longest common prefix that the KV cache still
// holds, prefills the rest. When cancelled, the timeline is a prefix of the tokens.
GC_API gc_status gc_session_sync(gc_session *session, const int32_t *tokens, int32_t n_tokens);
// How the tokens from here on are drawn. Restarts the random stream from the seed.
GC_API gc_status gc_session_set_sampling(gc_session *session, const gc_sampling *sampling);
// What an earlier session has learned about drafting with these models on this machine, and what
// this one knows.
GC_API gc_status gc_session_set_schedule(gc_session *session, const gc_schedule_state *saved);
GC_API void gc_session_schedule(const gc_session *session, gc_schedule_state *state);
// One round: drafts up to n_draft tokens (-1: as many as pay, by the drafter or copied from an
// earlier place), verifies them in one target pass and appends 1 to n_draft + 1 tokens to the
// timeline, at most max_tokens. The drafter is not asked in the first round after gc_session_sync
// where prefill leaves layers out.
// out needs GC_MAX_WIDTH places. When it fails or is cancelled the timeline is what it was.
GC_API gc_status gc_session_step(gc_session *session, int32_t n_draft, int32_t max_tokens,
                                 gc_token *out, int32_t *n_out);
// One round like gc_session_step, on drafts that the caller proposes instead of the drafter.
GC_API gc_status gc_session_verify(gc_session *session, const int32_t *drafts, int32_t n_drafts,
                                   int32_t max_tokens, gc_token *out, int32_t *n_out);
// Asks the call that is running, or else the next one, to stop within one pass. Any thread.
GC_API void gc_session_cancel(gc_session *session);
// Cancels when a pass asks for the n-th time from now whether to stop: for tests that must hit a
// certain moment.
GC_API void gc_session_cancel_at_poll(gc_session *session, int64_t n);
// From now on every draft counts as accepted with this probability, whatever the models say: for
// benchmarks on synthetic weights. What is drawn is meaningless.
GC_API gc_status gc_session_set_synthetic_acceptance(gc_session *session, double acceptance);
// Takes back a cancel that nothing has answered.
GC_API void gc_session_clear_cancel(gc_session *session);
// Of the last round's index-th token: its own log-probabilities, then the n most likely tokens at
// its place unfiltered, then the n most likely ones of the distribution it was drawn from, fewer
// where there are fewer. n is gc_sampling.n_logprobs, which must not be 0. out needs 1 + 2n places;
// *n_raw and *n_final are how many of each kind it holds after the first.
GC_API gc_status gc_session_logprobs(const gc_session *session, int32_t index, gc_logprob *out,
                                     int32_t *n_raw, int32_t *n_final);
GC_API void gc_session_stats(const gc_session *session, gc_stats *stats);

GC_API gc_status gc_session_inspect(const gc_session *session, gc_inspection *inspection);
// A fingerprint of the sequence's whole state in llama.cpp: keys, values, positions.
GC_API gc_status gc_session_kv_hash(const gc_session *session, uint64_t *hash);
// The logits after the timeline, computed by a pass of the given width (its other rows padding)
// that leaves no trace. logits needs gc_vocab_size places.
GC_API gc_status gc_session_probe(gc_session *session, int32_t width, float *logits);

// The first n_floats of the target's node of that name, computed by a pass over these tokens that
// asks for the logits of the last one and ends after the node; for tests. *found says whether the
// graph has such a node with so many; else rows is left as it was.
GC_API gc_status gc_node_rows(const gc_engine *engine, const int32_t *tokens, int32_t n_tokens,
                              const char *node, float *rows, int64_t n_floats, bool *found);

// llama.cpp's llama_model of the target, which lives as long as the engine; for tests.
GC_API void *gc_target_model(const gc_engine *engine);

// The distribution that a token is drawn from after the timeline and up to GC_MAX_DRAFT tokens that
// could follow it, all of them allowed by the grammar; leaves no trace. Writes up to capacity
// tokens in ascending order; *n_out is how many there are.
GC_API gc_status gc_session_distribution(gc_session *session, const int32_t *path, int32_t n_path,
                                         int32_t *ids, double *probabilities, int32_t capacity,
                                         int32_t *n_out);

#ifdef __cplusplus
}
#endif

#endif
