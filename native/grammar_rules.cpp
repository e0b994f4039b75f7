#include "grammar_rules.h"

#include <algorithm>
#include <cstddef>

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

// The smallest set of rules that is closed under holds(rule), which looks at the set so far.
template <typename Holds>
void find_fixpoint(const std::vector<GrammarRule> &rules, std::vector<bool> &set, Holds holds) {
    std::vector<std::vector<int32_t>> callers(rules.size());
    std::vector<int32_t> todo;
    for (size_t rule = 0; rule < rules.size(); ++rule) {
        std::vector<int32_t> called;
        add_called(rules[rule].alternatives, called);
        std::sort(called.begin(), called.end());
        called.erase(std::unique(called.begin(), called.end()), called.end());
        for (const int32_t id : called) {
            callers[static_cast<size_t>(id)].push_back(static_cast<int32_t>(rule));
        }
        todo.push_back(static_cast<int32_t>(rule));
    }
    set.assign(rules.size(), false);
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
        if (!set[rule] && holds(rules[rule])) {
            set[rule] = true;
            todo.insert(todo.end(), callers[rule].begin(), callers[rule].end());
        }
    }
}

}  // namespace

RuleFacts::RuleFacts(const std::vector<GrammarRule> &rules) : rules_(rules) {
    const auto any = [](const GrammarRule &rule, auto fits) {
        return std::any_of(rule.alternatives.begin(), rule.alternatives.end(), fits);
    };
    find_fixpoint(rules, finite_, [&](const GrammarRule &rule) {
        return any(rule, [&](const GrammarSequence &sequence) { return finite(sequence); });
    });
    find_fixpoint(rules, nullable_, [&](const GrammarRule &rule) {
        return any(rule, [&](const GrammarSequence &sequence) { return nullable(sequence); });
    });
}

bool RuleFacts::finite_once(const GrammarSymbol &symbol) const {
    switch (symbol.kind) {
        case GrammarSymbol::Kind::kRule:
            return finite(symbol.rule);
        case GrammarSymbol::Kind::kGroup:
            return std::any_of(symbol.group.begin(), symbol.group.end(),
                               [&](const GrammarSequence &way) { return finite(way); });
        default:
            return true;
    }
}

bool RuleFacts::finite(const GrammarSequence &sequence) const {
    return std::all_of(sequence.begin(), sequence.end(),
                       [&](const GrammarSymbol &symbol) { return finite(symbol); });
}

bool RuleFacts::nullable(const GrammarSymbol &symbol) const {
    if (symbol.min == 0) {
        return true;
    }
    switch (symbol.kind) {
        case GrammarSymbol::Kind::kRule:
            return nullable_[static_cast<size_t>(symbol.rule)];
        case GrammarSymbol::Kind::kGroup:
            return std::any_of(symbol.group.begin(), symbol.group.end(),
                               [&](const GrammarSequence &way) { return nullable(way); });
        case GrammarSymbol::Kind::kLiteral:
            return symbol.literal.empty();
        default:
            return false;
    }
}

bool RuleFacts::nullable(const GrammarSequence &sequence) const {
    return std::all_of(sequence.begin(), sequence.end(),
                       [&](const GrammarSymbol &symbol) { return nullable(symbol); });
}

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
        if (!nullable(symbol)) {
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
