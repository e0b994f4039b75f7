#include "grammar_rules.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "error.h"

namespace gc {

namespace {

constexpr size_t kMaxLooks = 1 << 26;  // at symbols

void add_called(const std::vector<GrammarSequence> &alternatives, std::vector<int32_t> &out) {
    for (const GrammarSequence &sequence : alternatives) {
        for (const GrammarSymbol &symbol : sequence) {
            if (symbol.kind == GrammarSymbol::Kind::kRule) {
                out.push_back(symbol.rule);
            }
            add_called(symbol.group, out);
        }
    }
}

// For every rule the rules that refer to it.
std::vector<std::vector<int32_t>> callers_of(const std::vector<GrammarRule> &rules) {
    std::vector<std::vector<int32_t>> callers(rules.size());
    for (size_t rule = 0; rule < rules.size(); ++rule) {
        std::vector<int32_t> called;
        add_called(rules[rule].alternatives, called);
        std::sort(called.begin(), called.end());
        called.erase(std::unique(called.begin(), called.end()), called.end());
        for (const int32_t id : called) {
            callers[static_cast<size_t>(id)].push_back(static_cast<int32_t>(rule));
        }
    }
    return callers;
}

bool is_empty_literal(const GrammarSymbol &symbol) {
    return symbol.kind == GrammarSymbol::Kind::kLiteral && symbol.literal.empty();
}

bool always(const GrammarSymbol &) { return true; }

}  // namespace

// Rules join the set until none is left to join; one that does may let its callers follow.
RuleProperty::RuleProperty(const std::vector<GrammarRule> &rules,
                           const std::vector<std::vector<int32_t>> &callers,
                           bool (*characters_have)(const GrammarSymbol &))
    : characters_have_(characters_have), set_(rules.size()) {
    std::vector<int32_t> todo(rules.size());
    std::iota(todo.begin(), todo.end(), 0);
    size_t n_looked_at = 0;
    while (!todo.empty()) {
        const auto rule = static_cast<size_t>(todo.back());
        todo.pop_back();
        for (const GrammarSequence &sequence : rules[rule].alternatives) {
            n_looked_at += 1 + sequence.size();
        }
        if (n_looked_at > kMaxLooks) {
            throw Error(GC_BAD_ARGUMENT,
                        "the grammar is too large: its rules refer to each other too often");
        }
        if (!set_[rule] && holds(rules[rule].alternatives)) {
            set_[rule] = true;
            todo.insert(todo.end(), callers[rule].begin(), callers[rule].end());
        }
    }
}

bool RuleProperty::holds_once(const GrammarSymbol &symbol) const {
    switch (symbol.kind) {
        case GrammarSymbol::Kind::kRule:
            return holds(symbol.rule);
        case GrammarSymbol::Kind::kGroup:
            return holds(symbol.group);
        default:
            return characters_have_(symbol);
    }
}

bool RuleProperty::holds(const GrammarSequence &sequence) const {
    return std::all_of(sequence.begin(), sequence.end(),
                       [&](const GrammarSymbol &symbol) { return holds(symbol); });
}

bool RuleProperty::holds(const std::vector<GrammarSequence> &alternatives) const {
    return std::any_of(alternatives.begin(), alternatives.end(),
                       [&](const GrammarSequence &way) { return holds(way); });
}

RuleFacts::RuleFacts(const std::vector<GrammarRule> &rules) : RuleFacts(rules, callers_of(rules)) {}

RuleFacts::RuleFacts(const std::vector<GrammarRule> &rules,
                     const std::vector<std::vector<int32_t>> &callers)
    : rules_(rules), finite_(rules, callers, always), nullable_(rules, callers, is_empty_literal) {}

// Adds the rules that a sequence may call before any character.
void RuleFacts::add_first(const GrammarSequence &sequence, std::vector<int32_t> &out) const {
    for (const GrammarSymbol &symbol : sequence) {
        if (symbol.max == 0) {
            continue;
        }
        if (symbol.kind == GrammarSymbol::Kind::kRule) {
            out.push_back(symbol.rule);
        }
        for (const GrammarSequence &way : symbol.group) {
            add_first(way, out);
        }
        if (!nullable_.holds(symbol)) {
            break;
        }
    }
}

std::string RuleFacts::left_recursive() const {
    enum class Mark : uint8_t { kNew, kOpen, kDone };
    struct Visit {
        int32_t rule;
        std::vector<int32_t> first;
        size_t next = 0;
    };
    std::vector<Mark> marks(rules_.size(), Mark::kNew);
    std::vector<Visit> path;  // not by recursion: grammars may be deep
    const auto enter = [&](int32_t rule) {
        marks[static_cast<size_t>(rule)] = Mark::kOpen;
        path.push_back({rule, {}});
        for (const GrammarSequence &way : rules_[static_cast<size_t>(rule)].alternatives) {
            add_first(way, path.back().first);
        }
    };
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
        if (marks[rule] == Mark::kNew) {
            enter(static_cast<int32_t>(rule));
        }
        while (!path.empty()) {
            Visit &visit = path.back();
            if (visit.next == visit.first.size()) {
                marks[static_cast<size_t>(visit.rule)] = Mark::kDone;
                path.pop_back();
                continue;
            }
            const int32_t called = visit.first[visit.next++];
            const Mark mark = marks[static_cast<size_t>(called)];
            if (mark == Mark::kOpen) {
                return rules_[static_cast<size_t>(called)].name;
            }
            if (mark == Mark::kNew) {
                enter(called);
            }
        }
    }
    return "";
}

}  // namespace gc
