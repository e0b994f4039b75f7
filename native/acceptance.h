// How likely drafts are to be accepted, learned from those that were judged.

#pragma once

#include <array>
#include <cstdint>

#include "gemmachat.h"

namespace gc {

// A probability estimated from outcomes, of which recent ones count more.
class Chance {
public:
    Chance() = default;
    // Starts as if so many outcomes had this mean.
    Chance(double mean, double weight) : sum_(mean * weight), n_(weight) {}

    void add(double outcome);
    // Lets what was seen so far count as no more than n outcomes.
    void fade(double n);
    // With an expectation that counts as so many outcomes.
    double mean(double expected, double weight) const {
        return (sum_ + weight * expected) / (n_ + weight);
    }

private:
    double sum_ = 0.0;
    double n_ = 0.0;
};

// Given that the drafts before it are accepted.
class Acceptance {
public:
    // expected is that of every place of a round before anything is known.
    explicit Acceptance(const std::array<double, GC_MAX_DRAFT> &expected);

    // Of the drafter's i-th token of a round.
    double drafted(int32_t i) const;
    // The same where the drafter's likeliest token had this probability; NaN: not known.
    double drafted(int32_t i, double confidence) const;
    // Of a token copied from behind an earlier place like this, by how many tokens are alike.
    double copied(int32_t n_alike) const;

    void add_drafted(int32_t i, double confidence, bool accepted);
    // For a token that was not drawn, so that nobody knows: stands in for its outcome, or else a
    // place that is drafted only when the drafter is sure would look better than it is.
    void add_undrawn(int32_t i, double confidence);
    void add_copied(int32_t n_alike, bool accepted);
    // The drafter may have become better or worse meanwhile.
    void fade();

private:
    std::array<double, GC_MAX_DRAFT> expected_;
    Chance any_place_;
    std::array<Chance, GC_MAX_DRAFT> by_place_;
    std::array<Chance, 6> by_confidence_;
    std::array<Chance, 6> by_alike_;
};

}  // namespace gc
