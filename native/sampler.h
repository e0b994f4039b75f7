// Rows of logits to distributions, under everything the user asked for, with the memory that some
// of it needs: tokens said before, the state of a grammar.
//
// The order, that of Hugging Face's transformers: logit bias and banned tokens; repetition penalty;
// presence and frequency penalties; the ban on ending early; the grammar; temperature; top-k,
// top-p, min-p, typical-p (see shape.h).

#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine.h"
#include "grammar.h"
#include "logit_row.h"
#include "shape.h"

namespace gc {

struct LogitBias {
    int32_t token;
    float value;  // added to the logit; -infinity bans the token
};

struct SamplerOptions {
    Sampling shaping;
    std::vector<LogitBias> bias;
    // Divides positive logits and multiplies negative ones of tokens among the last repeat_window
    // of prompt and answer (Keskar et al. 2019, arXiv 1909.05858). 1: off. A negative window is
    // all.
    float repeat_penalty = 1.0f;
    int32_t repeat_window = 64;
    // Subtracted from the logit of a token in the answer: once, and for each time it was said.
    float presence_penalty = 0.0f;
    float frequency_penalty = 0.0f;
    int32_t min_tokens = 0;  // the answer may not end before it has so many
    GrammarOptions grammar;
    int32_t n_logprobs = 0;  // how many alternatives the session reports for every token
};

class Sampler {
public:
    Sampler(const Engine &engine, SamplerOptions options);

    // Forgets what it saw; an answer begins after these tokens.
    void begin(const std::vector<int32_t> &prompt);

    // The distribution that a row stands for, after the timeline and all pushed tokens, and unless
    // raw is null what the row is without any rule. The row is changed and restored. Throws Error:
    // GC_BAD_LOGITS where the row is damaged, GC_NO_TOKEN where nothing is left to be drawn.
    void distribution(const LogitRow &row, Distribution &out, RowSummary *raw = nullptr);

    int32_t n_logprobs() const { return options_.n_logprobs; }

    // Goes on by a token of a draft; rewind takes back all of them.
    void push(int32_t token);
    void rewind();
    // Goes on for good; nothing is pushed.
    void commit(int32_t token);

private:
    struct Edit {
        float *logit;
        float original;
    };

    int32_t answer_length() const;
    bool counts_answer() const;
    void count(size_t size, int32_t n);
    void remember(int32_t token);
    void forget();
    void edit(const LogitRow &row);
    void set(float *logit, float value);
    void shape_allowed(const LogitRow &row, Distribution &out, RowSummary *summary);

    const Engine &engine_;
    const SamplerOptions options_;
    std::unique_ptr<Grammar> grammar_;  // null without one

    std::vector<int32_t> tokens_;  // prompt, answer, pushed
    size_t answer_start_ = 0;
    size_t n_pushed_ = 0;
    std::unordered_map<int32_t, int32_t> window_;  // how often a token is in the repeat window
    std::unordered_map<int32_t, int32_t> answer_;  // and in the answer

    std::vector<Edit> edits_;
};

}  // namespace gc
