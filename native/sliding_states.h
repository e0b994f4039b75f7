// What sliding layers held at earlier points of a timeline.
//
// Sliding layers forget positions that have left their window, so the cache alone cannot go back a
// long way. A state that was saved at a turn's border brings their cells back; the other layers
// never forget.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "llama.h"

namespace gc {

class SlidingStates {
public:
    explicit SlidingStates(int32_t window) : window_(window) {}

    // Keeps the cells of sequence 0, at positions 0 to n_cached - 1, unless they are too many. The
    // states that were saved or used longest ago make room.
    void save(llama_context *context, int32_t n_cached);
    // From position n_keep on the timeline is another one from now on.
    void cut(int32_t n_keep);
    // Whether cells from position oldest on are enough to go on after n positions.
    bool suffices(llama_pos oldest, int32_t n) const;
    // Puts back the cells with which most of the first n_most positions can be reused, and returns
    // how many these are. Later cells may be there too. 0: none, and the cells are undefined.
    int32_t restore(llama_context *context, int32_t n_most);

private:
    struct State {
        llama_pos oldest;
        int32_t n_valid;  // positions that are still those of the timeline
        std::vector<uint8_t> cells;
    };

    std::list<State>::iterator drop(std::list<State>::iterator state);
    // Drops the states that serve no position, or none that another one does not serve as well.
    void drop_useless();

    const int32_t window_;
    size_t n_bytes_ = 0;
    std::list<State> states_;  // last used first
};

}  // namespace gc
