// How many tokens to draft next: a pure function of what earlier rounds accepted.

#pragma once

#include <array>
#include <cstdint>

#include "gemmachat.h"

namespace gc {

// Drafts three tokens while that pays and parks when it does not. Decides from acceptance alone,
// never from a clock, so that the same seed gives the same text.
class Schedule {
public:
    // Tokens to draft in the next round. May depend only on finished rounds: a draft that looked
    // unlikely once it was drawn must not be dropped for that, or the output would be biased.
    int32_t draft_length() const;

    // Takes in a finished round of n_drafted drafts of which the first n_accepted were accepted.
    void record(int32_t n_drafted, int32_t n_accepted);

    bool parked() const { return parked_rounds_ > 0; }

private:
    double expected_gain() const;

    // Chance that a draft is accepted given that those before it were, by position.
    std::array<double, GC_MAX_DRAFT> acceptance_ = initial_acceptance();
    int32_t parked_rounds_ = 0;

    static std::array<double, GC_MAX_DRAFT> initial_acceptance();
};

}  // namespace gc
