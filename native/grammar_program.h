// A grammar compiled for reading text byte by byte: a network of places with calls between rules.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gc {

struct GrammarNode {
    enum class Kind : uint8_t {
        kReturn,  // the rule ends
        kByte,    // a byte from low to high, then next
        kSplit,   // next, or other
        kCall     // the rule that begins at other, then next
    };

    Kind kind;
    uint8_t low = 0;
    uint8_t high = 0;
    int32_t next = 0;
    int32_t other = 0;
};

struct GrammarProgram {
    static constexpr int32_t kReturn = 0;  // the one node of this kind

    std::vector<GrammarNode> nodes;
    int32_t start;
};

// Throws Error(GC_BAD_ARGUMENT) where the text is no GBNF (see gbnf.h), has no finite text, refers
// to itself before any character, or is too large. Ways that lead to no finite text are left out.
GrammarProgram compile_grammar(const std::string &text);

}  // namespace gc
