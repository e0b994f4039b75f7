#include "grammar.h"

#include <algorithm>
#include <string_view>

#include "error.h"
#include "grammar_program.h"

namespace gc {

namespace {

constexpr size_t kMaxRemembered = 1 << 22;  // 16 MB

}  // namespace

Grammar::Grammar(const Engine &engine, const GrammarOptions &options)
    : engine_(engine), options_(options), automaton_(compile_grammar(options.text)) {
    restart();
}

void Grammar::restart() {
    const Phase phase = options_.thought_open < 0 ? Phase::kText : Phase::kStart;
    states_ = {{phase, automaton_.start()}};
    path_.clear();
    depth_ = 0;
}

bool Grammar::opens_thought(const State &state, int32_t token) const {
    return state.phase == Phase::kStart && token == options_.thought_open;
}

// The place after a token that is text or ends the turn, or Automaton::kDead. Markers have no text:
// as tokens they structure the chat, and an answer that spells one is written with others.
int32_t Grammar::after(int32_t place, int32_t token) {
    if (engine_.is_end(token)) {
        return automaton_.accepts(place) ? place : Automaton::kDead;
    }
    const std::string_view text = engine_.trie().text(token);
    if (text.empty()) {
        return Automaton::kDead;
    }
    for (const char byte : text) {
        place = automaton_.next(place, static_cast<uint8_t>(byte));
        if (place == Automaton::kDead) {
            break;
        }
    }
    return place;
}

void Grammar::keep_allowed(std::vector<int32_t> &ids) {
    make_room();
    const State state = states_[depth_];
    if (state.phase == Phase::kThought) {
        return;
    }
    const auto forbidden = [&](int32_t id) {
        return !opens_thought(state, id) && after(state.place, id) == Automaton::kDead;
    };
    ids.erase(std::remove_if(ids.begin(), ids.end(), forbidden), ids.end());
}

const std::vector<int32_t> &Grammar::texts_from(int32_t place) {
    const auto found = texts_.find(place);
    if (found != texts_.end()) {
        return found->second;
    }
    std::vector<bool> fits(static_cast<size_t>(engine_.vocab_size()));
    engine_.trie().walk(
        place, [&](int32_t at, uint8_t byte) { return automaton_.next(at, byte); },
        [&](int32_t id) { fits[static_cast<size_t>(id)] = true; });
    std::vector<int32_t> ids;  // sorting them would take longer than all else
    for (int32_t id = 0; id < engine_.vocab_size(); ++id) {
        if (fits[static_cast<size_t>(id)]) {
            ids.push_back(id);
        }
    }
    if (n_remembered_ + ids.size() > kMaxRemembered) {
        texts_.clear();
        n_remembered_ = 0;
    }
    n_remembered_ += ids.size();
    return texts_.emplace(place, std::move(ids)).first->second;
}

std::vector<int32_t> Grammar::allowed() {
    make_room();
    const State state = states_[depth_];
    std::vector<int32_t> ids = texts_from(state.place);
    const auto add = [&](int32_t id) {
        ids.insert(std::lower_bound(ids.begin(), ids.end(), id), id);
    };
    if (automaton_.accepts(state.place)) {
        std::for_each(engine_.ends().begin(), engine_.ends().end(), add);
    }
    if (state.phase == Phase::kStart) {
        add(options_.thought_open);
    }
    return ids;
}

Grammar::State Grammar::advanced(State state, int32_t token) {
    if (state.phase == Phase::kThought) {
        state.phase = token == options_.thought_close ? Phase::kText : Phase::kThought;
        return state;
    }
    if (opens_thought(state, token)) {
        state.phase = Phase::kThought;
        return state;
    }
    const int32_t place = after(state.place, token);
    if (place == Automaton::kDead) {
        throw Error(GC_INTERNAL, "a token that the grammar forbids was drawn");
    }
    return {Phase::kText, place};
}

void Grammar::push(int32_t token) {
    if (depth_ == path_.size() || path_[depth_] != token) {
        make_room();
        const State next = advanced(states_[depth_], token);
        path_.resize(depth_);
        states_.resize(depth_ + 1);
        path_.push_back(token);
        states_.push_back(next);
    }
    ++depth_;
}

void Grammar::commit(int32_t token) {
    push(token);
    depth_ = 0;
    states_.erase(states_.begin());
    path_.erase(path_.begin());
}

// Before more is learned, what only other places needed may have to go.
void Grammar::make_room() {
    automaton_.rest();
    if (!automaton_.crowded()) {
        return;
    }
    std::vector<int32_t> places;
    for (const State &state : states_) {
        places.push_back(state.place);
    }
    automaton_.retain(places);
    for (size_t i = 0; i < states_.size(); ++i) {
        states_[i].place = places[i];
    }
    texts_.clear();
    n_remembered_ = 0;
}

std::vector<int32_t> walk(const Engine &engine, const std::string &grammar, Random &random,
                          int32_t n) {
    Grammar state(engine, {grammar, -1, -1});
    std::vector<int32_t> walked;
    while (static_cast<int32_t>(walked.size()) < n) {
        const std::vector<int32_t> ids = state.allowed();
        if (ids.empty()) {
            throw Error(GC_NO_TOKEN, "the grammar comes to a place where no text is allowed");
        }
        const double place = random.uniform() * static_cast<double>(ids.size());
        walked.push_back(ids[static_cast<size_t>(place)]);
        if (engine.is_end(walked.back())) {
            break;
        }
        state.commit(walked.back());
    }
    return walked;
}

}  // namespace gc
