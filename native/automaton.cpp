#include "automaton.h"

#include <algorithm>
#include <set>

#include "error.h"
#include "gemmachat.h"

namespace gc {

namespace {

// What a grammar may take: about half a second for a row, and about a hundred megabytes. JSON takes
// a few hundred states, each of a few dozen places.
constexpr int64_t kMaxWork = 5'000'000;
constexpr size_t kMaxPlaces = 1 << 17;  // of a state
constexpr size_t kMaxTotalPlaces = 1 << 23;
constexpr size_t kMaxStates = 1 << 16;
constexpr size_t kMaxFrames = 1 << 20;

[[noreturn]] void fail() {
    throw Error(GC_TOO_COMPLEX,
                "the grammar is too complex: its text can be read in too many ways");
}

}  // namespace

Automaton::Automaton(GrammarProgram program) : program_(std::move(program)) {
    clear();
    start_ = closed({{program_.start, kEmptyStack}});
}

void Automaton::try_rules() {
    for (const GrammarNode &node : program_.nodes) {
        if (node.kind == GrammarNode::Kind::kCall && work_ < kMaxWork / 4) {
            closed({{node.other, kEmptyStack}});
        }
    }
}

bool Automaton::accepts(int32_t state) const {
    const Place end = {GrammarProgram::kReturn, kEmptyStack};
    return states_[static_cast<size_t>(state)].places->front() == end;
}

int32_t Automaton::step(int32_t state, uint8_t byte) {
    Places after;
    for (const Place &place : *states_[static_cast<size_t>(state)].places) {
        const GrammarNode &node = program_.nodes[static_cast<size_t>(place.node)];
        if (node.kind == GrammarNode::Kind::kByte && node.low <= byte && byte <= node.high) {
            after.push_back({node.next, place.stack});
        }
        ++work_;
    }
    const int32_t next = after.empty() ? kDead : closed(std::move(after));
    states_[static_cast<size_t>(state)].next[byte] = next;
    return next;
}

// The state of all places that these lead to without a byte.
int32_t Automaton::closed(Places todo) {
    Places places;
    std::set<Place> seen;
    while (!todo.empty()) {
        const Place place = todo.back();
        todo.pop_back();
        if (!seen.insert(place).second) {
            continue;
        }
        if (++work_ > kMaxWork || seen.size() > kMaxPlaces) {
            fail();
        }
        const GrammarNode &node = program_.nodes[static_cast<size_t>(place.node)];
        switch (node.kind) {
            case GrammarNode::Kind::kByte:
                places.push_back(place);
                break;
            case GrammarNode::Kind::kSplit:
                todo.push_back({node.other, place.stack});
                todo.push_back({node.next, place.stack});
                break;
            case GrammarNode::Kind::kCall:
                todo.push_back({node.other, pushed(node.next, place.stack)});
                break;
            case GrammarNode::Kind::kReturn:
                if (place.stack == kEmptyStack) {
                    places.push_back(place);
                } else {
                    const Frame &frame = frames_[static_cast<size_t>(place.stack)];
                    todo.push_back({frame.node, frame.stack});
                }
                break;
        }
    }
    std::sort(places.begin(), places.end());
    return number(std::move(places));
}

int32_t Automaton::number(Places places) {
    const auto known = numbers_.find(places);
    if (known != numbers_.end()) {
        return known->second;
    }
    if (states_.size() == kMaxStates || n_places_ + places.size() > kMaxTotalPlaces) {
        fail();
    }
    const auto number = static_cast<int32_t>(states_.size());
    states_.push_back({nullptr, {}});
    states_.back().next.fill(kUnknown);
    try {
        states_.back().places = &numbers_.emplace(std::move(places), number).first->first;
    } catch (...) {
        states_.pop_back();
        throw;
    }
    n_places_ += states_.back().places->size();
    return number;
}

int32_t Automaton::pushed(int32_t node, int32_t stack) {
    // A call at the end of a rule returns to where that rule does: lists written by recursion do
    // not grow the stack.
    if (node == GrammarProgram::kReturn) {
        return stack;
    }
    const uint64_t key = static_cast<uint64_t>(node) << 32 | static_cast<uint32_t>(stack);
    const auto known = stacks_.find(key);
    if (known != stacks_.end()) {
        return known->second;
    }
    if (frames_.size() == kMaxFrames) {
        fail();
    }
    const auto number = static_cast<int32_t>(frames_.size());
    frames_.push_back({node, stack});  // of no harm if memory runs out before it has a name
    stacks_.emplace(key, number);
    return number;
}

bool Automaton::crowded() const {
    return states_.size() > kMaxStates / 4 || n_places_ > kMaxTotalPlaces / 4 ||
           frames_.size() > kMaxFrames / 4;
}

void Automaton::clear() {
    states_.clear();
    numbers_.clear();
    n_places_ = 0;
    stacks_.clear();
    frames_ = {{GrammarProgram::kReturn, kEmptyStack}};
}

void Automaton::retain(std::vector<int32_t> &states) {
    rest();
    std::vector<Places> kept;
    for (const int32_t state : states) {
        kept.push_back(*states_[static_cast<size_t>(state)].places);
    }
    const std::vector<Frame> old_frames = std::move(frames_);
    clear();
    start_ = closed({{program_.start, kEmptyStack}});
    std::unordered_map<int32_t, int32_t> known = {{kEmptyStack, kEmptyStack}};
    for (size_t i = 0; i < kept.size(); ++i) {
        for (Place &place : kept[i]) {
            place.stack = transferred(place.stack, old_frames, known);
        }
        std::sort(kept[i].begin(), kept[i].end());
        states[i] = number(std::move(kept[i]));
    }
}

// The number of an old stack among the new ones.
int32_t Automaton::transferred(int32_t stack, const std::vector<Frame> &from,
                               std::unordered_map<int32_t, int32_t> &known) {
    std::vector<int32_t> path;
    while (known.count(stack) == 0) {
        path.push_back(stack);
        stack = from[static_cast<size_t>(stack)].stack;
    }
    int32_t moved = known[stack];
    for (auto old = path.rbegin(); old != path.rend(); ++old) {
        moved = pushed(from[static_cast<size_t>(*old)].node, moved);
        known[*old] = moved;
    }
    return moved;
}

}  // namespace gc
