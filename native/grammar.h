// A grammar that the text must follow, with the states along a draft. The grammar engine is
// llama.cpp's (GBNF).

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "random.h"
#include "utf8.h"

namespace gc {

struct GrammarOptions {
    std::string text;  // GBNF, starting at the rule "root"; empty: no grammar
    // A thought may come first: from the one token to the other, the grammar waits. -1: it may not.
    llama_token thought_open = -1;
    llama_token thought_close = -1;
};

class Grammar {
public:
    // Throws Error(GC_BAD_ARGUMENT) when llama.cpp cannot read the grammar.
    Grammar(const Engine &engine, const GrammarOptions &options);

    // Whether every token is allowed now.
    bool waits() const { return states_[depth_].phase == Phase::kThought; }
    // Takes out the tokens that may not come next; ids stays in its order.
    void keep_allowed(std::vector<int32_t> &ids) const;

    // Goes on by a token of a draft, which must be allowed.
    void push(int32_t token);
    // Takes back all pushed tokens.
    void rewind() { depth_ = 0; }
    // Goes on for good; nothing is pushed.
    void commit(int32_t token);

private:
    enum class Phase { kStart, kThought, kText };

    struct Free {
        void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
    };
    using SamplerPtr = std::unique_ptr<llama_sampler, Free>;

    struct State {
        Phase phase;
        SamplerPtr sampler;
        Utf8 utf8;
    };

    State advanced(State state, int32_t token) const;
    State copy(const State &state) const;
    bool is_marker(int32_t token) const;
    bool breaks_utf8(Utf8 utf8, int32_t token) const;

    const Engine &engine_;
    const GrammarOptions options_;
    // states_[0] is committed, states_[i] the one after the first i tokens of path_. What a rewind
    // takes back stays, because verification walks the path that drafting has walked.
    std::vector<State> states_;
    std::vector<int32_t> path_;
    size_t depth_ = 0;
    mutable std::vector<llama_token_data> candidates_;
};

// Follows a grammar with up to n tokens drawn evenly from those allowed. Throws Error:
// GC_BAD_ARGUMENT where it cannot be read, GC_NO_TOKEN where no token is allowed.
std::vector<int32_t> walk(const Engine &engine, const std::string &grammar, Random &random,
                          int32_t n);

}  // namespace gc
