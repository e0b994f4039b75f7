#include "sliding_states.h"

#include <algorithm>
#include <iterator>

namespace gc {

namespace {

// gemmachat/memory.py counts on these.
constexpr size_t kMaxBytes = size_t{128} << 20;  // of all states of a session
constexpr size_t kMaxStates = 64;
constexpr llama_state_seq_flags kFlags = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;

}  // namespace

void SlidingStates::save(llama_context *context, int32_t n_cached) {
    const bool known = std::any_of(states_.begin(), states_.end(), [=](const State &state) {
        return state.n_valid == n_cached && suffices(state.oldest, n_cached);
    });
    const size_t size = llama_state_seq_get_size_ext(context, 0, kFlags);
    if (known || n_cached == 0 || size > kMaxBytes) {
        return;
    }
    while (n_bytes_ + size > kMaxBytes || states_.size() >= kMaxStates) {
        drop(std::prev(states_.end()));
    }
    State state{llama_memory_seq_pos_min(llama_get_memory(context), 0), n_cached,
                std::vector<uint8_t>(size)};
    if (llama_state_seq_get_data_ext(context, state.cells.data(), size, 0, kFlags) == size) {
        states_.push_front(std::move(state));
        n_bytes_ += size;
        drop_useless();
    }
}

void SlidingStates::cut(int32_t n_keep) {
    for (State &state : states_) {
        state.n_valid = std::min(state.n_valid, n_keep);
    }
    drop_useless();
}

std::list<SlidingStates::State>::iterator SlidingStates::drop(std::list<State>::iterator state) {
    n_bytes_ -= state->cells.size();
    return states_.erase(state);
}

void SlidingStates::drop_useless() {
    for (auto state = states_.begin(); state != states_.end();) {
        const bool serves = suffices(state->oldest, state->n_valid);
        const bool surpassed = std::any_of(states_.begin(), states_.end(), [&](const State &other) {
            return &other != &*state && other.oldest <= state->oldest &&
                   other.n_valid >= state->n_valid;
        });
        state = serves && !surpassed ? std::next(state) : drop(state);
    }
}

bool SlidingStates::suffices(llama_pos oldest, int32_t n) const {
    return oldest <= std::max(n + 1 - window_, 0);
}

int32_t SlidingStates::restore(llama_context *context, int32_t n_most) {
    auto best = states_.end();
    int32_t n_best = 0;
    for (auto state = states_.begin(); state != states_.end(); ++state) {
        const int32_t n = std::min(state->n_valid, n_most);
        if (n > n_best && suffices(state->oldest, n)) {
            best = state;
            n_best = n;
        }
    }
    if (best == states_.end()) {
        return 0;
    }
    states_.splice(states_.begin(), states_, best);
    const std::vector<uint8_t> &cells = best->cells;
    const bool restored = llama_state_seq_set_data_ext(context, cells.data(), cells.size(), 0,
                                                       kFlags) == cells.size();
    return restored ? n_best : 0;
}

}  // namespace gc
