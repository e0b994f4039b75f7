// GBNF, llama.cpp's notation for grammars (its grammars/README.md), from text to rules.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "code_points.h"

namespace gc {

struct GrammarSymbol;
using GrammarSequence = std::vector<GrammarSymbol>;

// What may stand at one place of a rule, min to max times.
struct GrammarSymbol {
    enum class Kind { kLiteral, kClass, kGroup, kRule };
    static constexpr int32_t kNoLimit = -1;

    Kind kind;
    std::string literal;                 // UTF-8
    std::vector<CodeRange> ranges;       // of a class: a set
    std::vector<GrammarSequence> group;  // its alternatives
    int32_t rule = 0;                    // an index
    int32_t min = 1;
    int32_t max = 1;
};

struct GrammarRule {
    std::string name;
    std::vector<GrammarSequence> alternatives;
};

// Throws Error(GC_BAD_ARGUMENT) with the line where the text cannot be read. Every rule that is
// named has a definition; the first rule of the result is "root".
std::vector<GrammarRule> parse_gbnf(const std::string &text);

}  // namespace gc
