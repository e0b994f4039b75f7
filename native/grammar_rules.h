// What follows from the rules of a grammar alone.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gbnf.h"

namespace gc {

// A property that a rule has if one of its alternatives has it throughout. What may be left out
// always has it; of literals and classes one says what they have.
class RuleProperty {
public:
    // callers holds for every rule those that refer to it. Throws Error(GC_BAD_ARGUMENT) where
    // there are too many to look at.
    RuleProperty(const std::vector<GrammarRule> &rules,
                 const std::vector<std::vector<int32_t>> &callers,
                 bool (*characters_have)(const GrammarSymbol &));

    bool holds(int32_t rule) const { return set_[static_cast<size_t>(rule)]; }
    bool holds(const GrammarSymbol &symbol) const { return symbol.min == 0 || holds_once(symbol); }
    bool holds_once(const GrammarSymbol &symbol) const;  // and not by leaving it out
    bool holds(const GrammarSequence &sequence) const;
    bool holds(const std::vector<GrammarSequence> &alternatives) const;

private:
    bool (*const characters_have_)(const GrammarSymbol &);
    std::vector<bool> set_;
};

class RuleFacts {
public:
    // Throws Error(GC_BAD_ARGUMENT) where there are too many rules to look at.
    explicit RuleFacts(const std::vector<GrammarRule> &rules);

    // Some finite text fits.
    const RuleProperty &finite() const { return finite_; }
    // The name of a rule that comes to itself again before any character, "" if there is none.
    std::string left_recursive() const;

private:
    RuleFacts(const std::vector<GrammarRule> &rules,
              const std::vector<std::vector<int32_t>> &callers);
    void add_first(const GrammarSequence &sequence, std::vector<int32_t> &out) const;

    const std::vector<GrammarRule> &rules_;
    const RuleProperty finite_;
    const RuleProperty nullable_;  // the empty text fits
};

}  // namespace gc
