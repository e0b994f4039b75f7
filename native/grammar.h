// A grammar that the text must follow, with the states along a draft.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "automaton.h"
#include "engine.h"
#include "random.h"

namespace gc {

struct GrammarOptions {
    std::string text;  // GBNF, starting at the rule "root"; empty: no grammar
    // A thought may come first: from the one token to the other, the grammar waits. -1: it may not.
    llama_token thought_open = -1;
    llama_token thought_close = -1;
};

class Grammar {
public:
    // Throws Error: GC_BAD_ARGUMENT where the grammar cannot be read and GC_TOO_COMPLEX, as all
    // that follows does, where it asks too much.
    Grammar(const Engine &engine, const GrammarOptions &options);

    // Back to where an answer begins.
    void restart();

    // Whether every token is allowed now.
    bool waits() const { return states_[depth_].phase == Phase::kThought; }
    // Takes out the tokens that may not come next; ids stays in its order.
    void keep_allowed(std::vector<int32_t> &ids);
    // All tokens that may come next, ascending.
    std::vector<int32_t> allowed();

    // Goes on by a token of a draft, which must be allowed.
    void push(int32_t token);
    // Takes back all pushed tokens.
    void rewind() { depth_ = 0; }
    // Goes on for good; nothing is pushed.
    void commit(int32_t token);

private:
    enum class Phase { kStart, kThought, kText };

    struct State {
        Phase phase;
        int32_t place;  // of the automaton
    };

    void make_room();
    State advanced(State state, int32_t token);
    int32_t after(int32_t place, int32_t token);
    bool opens_thought(const State &state, int32_t token) const;
    const std::vector<int32_t> &texts_from(int32_t place);

    const Engine &engine_;
    const GrammarOptions options_;
    Automaton automaton_;
    // states_[0] is committed, states_[i] the one after the first i tokens of path_. What a rewind
    // takes back stays, because verification walks the path that drafting has walked.
    std::vector<State> states_;
    std::vector<int32_t> path_;
    size_t depth_ = 0;
    // The tokens whose whole text may come next, by place of the automaton.
    std::unordered_map<int32_t, std::vector<int32_t>> texts_;
    size_t n_remembered_ = 0;  // tokens in texts_
};

// Follows a grammar with up to n tokens drawn evenly from those allowed. Throws Error:
// GC_BAD_ARGUMENT where it cannot be read, GC_TOO_COMPLEX where it asks too much, GC_NO_TOKEN where
// no token is allowed.
std::vector<int32_t> walk(const Engine &engine, const std::string &grammar, Random &random,
                          int32_t n);

}  // namespace gc
