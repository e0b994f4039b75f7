#include "grammar.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "error.h"
#include "log.h"

namespace gc {

Grammar::Grammar(const Engine &engine, const GrammarOptions &options)
    : engine_(engine), options_(options) {
    clear_log();
    SamplerPtr sampler(llama_sampler_init_grammar(engine.vocab(), options.text.c_str(), "root"));
    if (sampler == nullptr) {
        throw Error(GC_BAD_ARGUMENT, "llama.cpp cannot read the grammar" + logged_reason());
    }
    const Phase phase = options.thought_open < 0 ? Phase::kText : Phase::kStart;
    states_.push_back({phase, std::move(sampler), {}});
}

// llama.cpp would take the spelling of a marker for text, so that a string could hold the marker
// itself. Only the tokens that end the turn are its business.
bool Grammar::is_marker(int32_t token) const {
    return !engine_.is_end(token) && engine_.is_marker(token);
}

// Single bytes are tokens too, and llama.cpp lets them spell what is no UTF-8. It looks at what
// goes on with a character that they began, if not closely enough.
bool Grammar::breaks_utf8(Utf8 utf8, int32_t token) const {
    if (!engine_.is_byte(token)) {
        return false;
    }
    const std::string piece = engine_.piece(token);
    return !std::all_of(piece.begin(), piece.end(),
                        [&](char byte) { return utf8.next(static_cast<uint8_t>(byte)); });
}

void Grammar::keep_allowed(std::vector<int32_t> &ids) const {
    const State &state = states_[depth_];
    if (state.phase == Phase::kThought) {
        return;
    }
    candidates_.clear();
    for (const int32_t id : ids) {
        candidates_.push_back({id, is_marker(id) ? -INFINITY : 0.0f, 0.0f});
    }
    llama_token_data_array array = {candidates_.data(), candidates_.size(), -1, false};
    llama_sampler_apply(state.sampler.get(), &array);
    size_t n_kept = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
        const bool opens = state.phase == Phase::kStart && ids[i] == options_.thought_open;
        if (opens || (candidates_[i].logit == 0.0f && !is_marker(ids[i]) &&
                      !breaks_utf8(state.utf8, ids[i]))) {
            ids[n_kept++] = ids[i];
        }
    }
    ids.resize(n_kept);
}

Grammar::State Grammar::copy(const State &state) const {
    SamplerPtr sampler(llama_sampler_clone(state.sampler.get()));
    if (sampler == nullptr) {
        throw Error(GC_INTERNAL, "llama.cpp cannot copy a grammar");
    }
    return {state.phase, std::move(sampler), state.utf8};
}

Grammar::State Grammar::advanced(State state, int32_t token) const {
    if (state.phase == Phase::kThought) {
        state.phase = token == options_.thought_close ? Phase::kText : Phase::kThought;
    } else if (state.phase == Phase::kStart && token == options_.thought_open) {
        state.phase = Phase::kThought;
    } else {
        state.phase = Phase::kText;
        // llama.cpp ends the process on a token that it did not allow.
        llama_token_data candidate = {token, 0.0f, 0.0f};
        llama_token_data_array array = {&candidate, 1, -1, false};
        llama_sampler_apply(state.sampler.get(), &array);
        if (candidate.logit != 0.0f) {
            throw Error(GC_INTERNAL, "a token that the grammar forbids was drawn");
        }
        llama_sampler_accept(state.sampler.get(), token);
        for (const char byte : engine_.piece(token)) {
            state.utf8.next(static_cast<uint8_t>(byte));
        }
    }
    return state;
}

void Grammar::push(int32_t token) {
    if (depth_ == path_.size() || path_[depth_] != token) {
        path_.resize(depth_);
        states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(depth_) + 1, states_.end());
        states_.push_back(advanced(copy(states_[depth_]), token));
        path_.push_back(token);
    }
    ++depth_;
}

void Grammar::commit(int32_t token) {
    if (!path_.empty() && path_[0] == token) {
        states_.erase(states_.begin());
        path_.erase(path_.begin());
        return;
    }
    path_.clear();
    states_.erase(states_.begin() + 1, states_.end());
    State next = advanced(copy(states_[0]), token);
    states_[0] = std::move(next);
}

std::vector<int32_t> walk(const Engine &engine, const std::string &grammar, Random &random,
                          int32_t n) {
    constexpr int32_t kSample = 256;  // looking at all tokens takes long
    Grammar state(engine, {grammar, -1, -1});
    const auto below = [&](size_t limit) {
        return static_cast<size_t>(random.uniform() * static_cast<double>(limit));
    };
    std::vector<int32_t> walked;
    std::vector<int32_t> ids;
    while (static_cast<int32_t>(walked.size()) < n) {
        ids = engine.ends();
        for (int32_t i = 0; i < kSample; ++i) {
            ids.push_back(static_cast<int32_t>(below(static_cast<size_t>(engine.vocab_size()))));
        }
        state.keep_allowed(ids);
        if (ids.empty()) {
            ids.resize(static_cast<size_t>(engine.vocab_size()));
            std::iota(ids.begin(), ids.end(), 0);
            state.keep_allowed(ids);
        }
        if (ids.empty()) {
            throw Error(GC_NO_TOKEN, "the grammar comes to a place where no text is allowed");
        }
        walked.push_back(ids[below(ids.size())]);
        state.commit(walked.back());
        if (engine.is_end(walked.back())) {
            break;
        }
    }
    return walked;
}

}  // namespace gc
