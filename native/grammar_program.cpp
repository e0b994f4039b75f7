#include "grammar_program.h"

#include <array>
#include <map>
#include <utility>

#include "error.h"
#include "gbnf.h"
#include "gemmachat.h"
#include "grammar_rules.h"

namespace gc {

namespace {

constexpr size_t kMaxParts = 1 << 22;

// Compiles from the end: every part is given the node that follows it and returns where it begins.
class Compiler {
public:
    explicit Compiler(const std::vector<GrammarRule> &rules) : rules_(rules), facts_(rules) {}

    GrammarProgram program() {
        if (!facts_.finite().holds(0)) {
            throw Error(GC_BAD_ARGUMENT, "no text can ever complete the grammar's rule \"root\"");
        }
        const std::string recursive = facts_.left_recursive();
        if (!recursive.empty()) {
            throw Error(GC_BAD_ARGUMENT, "the grammar's rule \"" + recursive +
                                             "\" comes to itself again before any character");
        }
        add({GrammarNode::Kind::kReturn});
        for (size_t rule = 0; rule < rules_.size(); ++rule) {
            add({GrammarNode::Kind::kSplit});  // its beginning, known when it is compiled
        }
        for (size_t rule = 0; rule < rules_.size(); ++rule) {
            if (facts_.finite().holds(static_cast<int32_t>(rule))) {
                const int32_t start =
                    alternatives(rules_[rule].alternatives, GrammarProgram::kReturn);
                nodes_[static_cast<size_t>(beginning(static_cast<int32_t>(rule)))] = {
                    GrammarNode::Kind::kSplit, 0, 0, start, start};
            }
        }
        return {std::move(nodes_), beginning(0)};
    }

private:
    static int32_t beginning(int32_t rule) { return 1 + rule; }

    // More nodes, or symbols that need none.
    void count(size_t n = 1) {
        n_parts_ += n;
        if (n_parts_ > kMaxParts) {
            throw Error(GC_BAD_ARGUMENT,
                        "the grammar is too large: it has too many symbols or repetitions");
        }
    }

    int32_t add(const GrammarNode &node) {
        count();
        nodes_.push_back(node);
        return static_cast<int32_t>(nodes_.size()) - 1;
    }

    int32_t split(int32_t next, int32_t other) {
        return add({GrammarNode::Kind::kSplit, 0, 0, next, other});
    }

    int32_t byte(ByteRange range, int32_t next) {
        return add({GrammarNode::Kind::kByte, range.low, range.high, next, 0});
    }

    int32_t alternatives(const std::vector<GrammarSequence> &ways, int32_t next) {
        constexpr int32_t kNone = -1;
        int32_t start = kNone;
        for (const GrammarSequence &way : ways) {
            count(1 + way.size());  // what looking at it costs
            if (facts_.finite().holds(way)) {
                const int32_t begin = sequence(way, next);
                start = start == kNone ? begin : split(start, begin);
            }
        }
        return start;
    }

    int32_t sequence(const GrammarSequence &symbols, int32_t next) {
        for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol) {
            next = repeated(*symbol, next);
        }
        return next;
    }

    int32_t repeated(const GrammarSymbol &symbol, int32_t next) {
        if (!facts_.finite().holds_once(symbol)) {
            return next;  // it may only be left out
        }
        int32_t start = next;
        if (symbol.max == GrammarSymbol::kNoLimit) {
            start = split(next, next);
            const int32_t body = once(symbol, start);
            nodes_[static_cast<size_t>(start)].next = body;
        }
        for (int32_t i = symbol.min; i < symbol.max; ++i) {
            start = split(once(symbol, start), next);
        }
        for (int32_t i = 0; i < symbol.min; ++i) {
            start = once(symbol, start);
        }
        return start;
    }

    int32_t once(const GrammarSymbol &symbol, int32_t next) {
        count();
        switch (symbol.kind) {
            case GrammarSymbol::Kind::kLiteral:
                for (auto c = symbol.literal.rbegin(); c != symbol.literal.rend(); ++c) {
                    const auto value = static_cast<uint8_t>(*c);
                    next = byte({value, value}, next);
                }
                return next;
            case GrammarSymbol::Kind::kClass:
                return char_class(symbol.ranges, next);
            case GrammarSymbol::Kind::kGroup:
                return alternatives(symbol.group, next);
            default:
                return add({GrammarNode::Kind::kCall, 0, 0, next, beginning(symbol.rule)});
        }
    }

    int32_t char_class(const std::vector<CodeRange> &set, int32_t next) {
        std::map<std::array<int32_t, 3>, int32_t> shared;  // ends of encodings
        int32_t start = GrammarProgram::kReturn;
        for (const ByteSequence &sequence : utf8_sequences(set)) {
            int32_t at = next;
            for (auto range = sequence.rbegin(); range != sequence.rend(); ++range) {
                const auto [found, is_new] = shared.emplace(
                    std::array<int32_t, 3>{range->low, range->high, at}, GrammarProgram::kReturn);
                if (is_new) {
                    found->second = byte(*range, at);
                }
                at = found->second;
            }
            start = start == GrammarProgram::kReturn ? at : split(start, at);
        }
        return start;
    }

    const std::vector<GrammarRule> &rules_;
    const RuleFacts facts_;
    std::vector<GrammarNode> nodes_;
    size_t n_parts_ = 0;
};

}  // namespace

GrammarProgram compile_grammar(const std::string &text) {
    return Compiler(parse_gbnf(text)).program();
}

}  // namespace gc
