// Follows a compiled grammar along text: a pushdown automaton, made deterministic as it goes.
//
// A state is the set of all places where a reading of the text so far can stand, each with the
// places that the open rules return to. States and their steps are remembered: what was seen once
// costs a look into a table. Nothing is unbounded: a text that can be read in too many ways is an
// error, not a hang.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar_program.h"

namespace gc {

class Automaton {
public:
    static constexpr int32_t kDead = -1;

    // Throws Error(GC_TOO_COMPLEX), as next and retain do, where the grammar asks too much.
    explicit Automaton(GrammarProgram program);
    Automaton(const Automaton &) = delete;  // states point into numbers_
    Automaton &operator=(const Automaton &) = delete;

    // Enters every rule on its own: one that asks too much is found before a text comes to it.
    void try_rules();

    int32_t start() const { return start_; }
    // The state after one more byte, kDead where no text goes on so.
    int32_t next(int32_t state, uint8_t byte) {
        const int32_t known = states_[static_cast<size_t>(state)].next[byte];
        return known == kUnknown ? step(state, byte) : known;
    }
    // Whether the text may end here.
    bool accepts(int32_t state) const;

    // A new allowance of work for the steps that are not known yet.
    void rest() { work_ = 0; }
    // Whether so much is remembered that retain should be called.
    bool crowded() const;
    // Forgets all states but the first and these, which get new numbers.
    void retain(std::vector<int32_t> &states);

private:
    static constexpr int32_t kUnknown = -2;
    static constexpr int32_t kEmptyStack = 0;

    struct Place {
        int32_t node;
        int32_t stack;

        bool operator<(const Place &other) const {
            return node != other.node ? node < other.node : stack < other.stack;
        }
        bool operator==(const Place &other) const {
            return node == other.node && stack == other.stack;
        }
    };
    using Places = std::vector<Place>;  // ascending

    struct State {
        const Places *places;
        std::array<int32_t, 256> next;
    };
    struct Frame {
        int32_t node;  // where the rule returns to
        int32_t stack;
    };

    int32_t step(int32_t state, uint8_t byte);
    int32_t closed(Places todo);
    int32_t number(Places places);
    int32_t pushed(int32_t node, int32_t stack);
    int32_t transferred(int32_t stack, const std::vector<Frame> &from,
                        std::unordered_map<int32_t, int32_t> &known);
    void clear();

    const GrammarProgram program_;
    std::vector<State> states_;
    std::map<Places, int32_t> numbers_;
    size_t n_places_ = 0;        // of all states
    std::vector<Frame> frames_;  // a stack is its top frame; frame 0 is the empty stack
    std::unordered_map<uint64_t, int32_t> stacks_;
    int32_t start_ = kDead;
    int64_t work_ = 0;
};

}  // namespace gc
