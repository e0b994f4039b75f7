#include "gbnf.h"

#include <tuple>
#include <unordered_map>
#include <utility>

#include "error.h"
#include "gbnf_scanner.h"

namespace gc {

namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int32_t kMaxDepth = 100;      // of parentheses
constexpr int32_t kMaxMarks = 4;        // of repetition after one symbol
constexpr int32_t kMaxRepeats = 10000;  // in one pair of braces

class Parser {
public:
    explicit Parser(const std::string &text) : scanner_(text) {}

    std::vector<GrammarRule> rules() {
        rule_id("root");
        scanner_.skip_space(/*lines=*/true);
        while (!scanner_.at_end()) {
            rule();
        }
        for (size_t i = 0; i < rules_.size(); ++i) {
            if (!defined_[i]) {
                throw Error(GC_BAD_ARGUMENT,
                            "the grammar has no rule named \"" + rules_[i].name + "\"");
            }
        }
        return std::move(rules_);
    }

private:
    int32_t rule_id(const std::string &name) {
        const auto [found, is_new] = ids_.emplace(name, static_cast<int32_t>(rules_.size()));
        if (is_new) {
            rules_.push_back({name, {}});
            defined_.push_back(false);
        }
        return found->second;
    }

    void rule() {
        const auto id = static_cast<size_t>(rule_id(scanner_.name()));
        scanner_.skip_space(false);
        if (!scanner_.take("::=")) {
            scanner_.fail("::= is expected after the name of a rule");
        }
        if (defined_[id]) {
            scanner_.fail("the rule \"" + rules_[id].name + "\" is there already");
        }
        scanner_.skip_space(true);
        std::vector<GrammarSequence> alternatives = this->alternatives(/*nested=*/false);
        const char next = scanner_.here();
        if (!scanner_.at_end() && next != '\r' && next != '\n') {
            scanner_.fail(next == ')' ? "this ) closes nothing" : "a symbol is expected here");
        }
        rules_[id].alternatives = std::move(alternatives);
        defined_[id] = true;
        scanner_.skip_space(true);
    }

    std::vector<GrammarSequence> alternatives(bool nested) {
        std::vector<GrammarSequence> out = {sequence(nested)};
        while (scanner_.take('|')) {
            scanner_.skip_space(true);
            out.push_back(sequence(nested));
        }
        return out;
    }

    GrammarSequence sequence(bool nested) {
        GrammarSequence out;
        for (;;) {
            GrammarSymbol symbol;
            if (scanner_.take('"')) {
                symbol = literal();
            } else if (scanner_.take('[')) {
                symbol = char_class();
            } else if (scanner_.take('.')) {
                symbol.kind = GrammarSymbol::Kind::kClass;
                symbol.ranges = {{0, kLastCodePoint}};
            } else if (scanner_.take('(')) {
                symbol = group();
            } else if (scanner_.at_name()) {
                symbol.kind = GrammarSymbol::Kind::kRule;
                symbol.rule = rule_id(scanner_.name());
            } else if (scanner_.here() == '<' || scanner_.here() == '!') {
                scanner_.fail("tokens, as in <name>, cannot be part of a grammar");
            } else {
                break;
            }
            scanner_.skip_space(nested);
            out.push_back(repeated(std::move(symbol), nested));
        }
        return out;
    }

    GrammarSymbol literal() {
        GrammarSymbol symbol;
        symbol.kind = GrammarSymbol::Kind::kLiteral;
        while (!scanner_.take('"')) {
            const uint32_t code = scanner_.character();
            if (code == 0 || (code >= 0xD800 && code < 0xE000)) {
                scanner_.fail("a character that no text holds");
            }
            append_utf8(symbol.literal, code);
        }
        return symbol;
    }

    GrammarSymbol char_class() {
        GrammarSymbol symbol;
        symbol.kind = GrammarSymbol::Kind::kClass;
        const bool negated = scanner_.take('^');
        while (!scanner_.take(']')) {
            const uint32_t low = scanner_.character();
            uint32_t high = low;
            if (scanner_.here() == '-' && scanner_.here(1) != ']') {
                scanner_.take('-');
                high = scanner_.character();
            }
            if (high < low) {
                scanner_.fail("a range of characters ends before it begins");
            }
            symbol.ranges.push_back({low, high});
        }
        symbol.ranges = merged(std::move(symbol.ranges));
        if (negated) {
            symbol.ranges = complement(symbol.ranges);
        }
        if (utf8_sequences(symbol.ranges).empty()) {
            scanner_.fail("a [...] without any character");
        }
        return symbol;
    }

    GrammarSymbol group() {
        if (++depth_ > kMaxDepth) {
            scanner_.fail("more than " + std::to_string(kMaxDepth) + " parentheses in each other");
        }
        scanner_.skip_space(true);
        GrammarSymbol symbol;
        symbol.kind = GrammarSymbol::Kind::kGroup;
        symbol.group = alternatives(/*nested=*/true);
        if (!scanner_.take(')')) {
            scanner_.fail("a symbol or a ) is expected here");
        }
        --depth_;
        return symbol;
    }

    // What may follow a symbol: ? * + {n} {n,} {n,m}, also several of them.
    GrammarSymbol repeated(GrammarSymbol symbol, bool nested) {
        for (int32_t n_marks = 0;; ++n_marks) {
            int32_t min = 0;
            int32_t max = GrammarSymbol::kNoLimit;
            if (scanner_.take('?')) {
                max = 1;
            } else if (scanner_.take('+')) {
                min = 1;
            } else if (scanner_.take('{')) {
                std::tie(min, max) = bounds(nested);
            } else if (!scanner_.take('*')) {
                return symbol;
            }
            scanner_.skip_space(nested);
            if (n_marks == kMaxMarks) {
                scanner_.fail("too many marks of repetition after each other");
            }
            if (n_marks > 0) {
                GrammarSymbol inner = std::move(symbol);
                symbol = {};
                symbol.kind = GrammarSymbol::Kind::kGroup;
                symbol.group = {{std::move(inner)}};
            }
            symbol.min = min;
            symbol.max = max;
        }
    }

    std::pair<int32_t, int32_t> bounds(bool nested) {
        scanner_.skip_space(nested);
        const int32_t min = scanner_.number(kMaxRepeats);
        int32_t max = min;
        scanner_.skip_space(nested);
        if (scanner_.take(',')) {
            scanner_.skip_space(nested);
            max = scanner_.here() == '}' ? GrammarSymbol::kNoLimit : scanner_.number(kMaxRepeats);
            scanner_.skip_space(nested);
        }
        if (!scanner_.take('}')) {
            scanner_.fail("a } is expected after a number of repetitions");
        }
        if (max != GrammarSymbol::kNoLimit && max < min) {
            scanner_.fail("a repetition's maximum is below its minimum");
        }
        return {min, max};
    }

    GbnfScanner scanner_;
    int32_t depth_ = 0;
    std::vector<GrammarRule> rules_;
    std::vector<bool> defined_;
    std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace

std::vector<GrammarRule> parse_gbnf(const std::string &text) {
    if (text.size() > kMaxBytes) {
        throw Error(GC_BAD_ARGUMENT, "the grammar is longer than 1 MiB");
    }
    return Parser(text).rules();
}

}  // namespace gc
