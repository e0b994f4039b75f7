// What follows from the rules of a grammar alone.

#pragma once

#include <string>
#include <vector>

#include "gbnf.h"

namespace gc {

class RuleFacts {
public:
    explicit RuleFacts(const std::vector<GrammarRule> &rules);

    // Whether some finite text fits.
    bool finite(int32_t rule) const { return finite_[static_cast<size_t>(rule)]; }
    bool finite(const GrammarSymbol &symbol) const {
        return symbol.min == 0 || finite_once(symbol);
    }
    bool finite_once(const GrammarSymbol &symbol) const;  // and not by leaving it out
    bool finite(const GrammarSequence &sequence) const;

    // The name of a rule that comes to itself again before any character, "" if there is none.
    std::string left_recursive() const;

private:
    bool nullable(const GrammarSymbol &symbol) const;
    bool nullable(const GrammarSequence &sequence) const;
    void add_first(const GrammarSequence &sequence, std::vector<int32_t> &out) const;

    const std::vector<GrammarRule> &rules_;
    std::vector<bool> finite_;
    std::vector<bool> nullable_;  // the empty text fits
};

}  // namespace gc
