#include "acceptance.h"

#include <algorithm>
#include <cmath>

namespace gc {

namespace {

constexpr double kMemory = 0.98;  // weight of the past when an outcome is added
constexpr double kFaded = 4.0;    // outcomes that count after a pause

// Weights of what is expected, in outcomes.
constexpr double kPrior = 3.0;
constexpr double kPooled = 20.0;     // of all places, for the first one
constexpr double kNeighbour = 50.0;  // of the place before
constexpr double kPlace = 5.0;       // of the place, in the estimate by confidence
constexpr double kCopied = 2.0;

constexpr double kConfidences[] = {0.3, 0.5, 0.7, 0.85, 0.95};
constexpr int32_t kAlike[] = {4, 5, 7, 10, 16};
constexpr double kCopiedExpected[] = {0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

size_t confidence_bin(double confidence) {
    return static_cast<size_t>(
        std::upper_bound(std::begin(kConfidences), std::end(kConfidences), confidence) -
        std::begin(kConfidences));
}

size_t alike_bin(int32_t n_alike) {
    return static_cast<size_t>(std::upper_bound(std::begin(kAlike), std::end(kAlike), n_alike) -
                               std::begin(kAlike));
}

}  // namespace

void Chance::add(double outcome) {
    sum_ = kMemory * sum_ + outcome;
    n_ = kMemory * n_ + 1.0;
}

void Chance::fade(double n) {
    if (n_ > n) {
        sum_ *= n / n_;
        n_ = n;
    }
}

Acceptance::Acceptance(const std::array<double, GC_MAX_DRAFT> &expected) : expected_(expected) {
    any_place_ = Chance(expected[0], kPrior);
}

// Places differ little, so that all of them tell about the first one, and a place that was rarely
// reached is taken to be like the one before it.
double Acceptance::drafted(int32_t i) const {
    double mean = by_place_[0].mean(any_place_.mean(0.0, 0.0), kPooled);
    for (int32_t place = 1; place <= i; ++place) {
        const double ratio = expected_[place] / std::max(expected_[place - 1], 1e-3);
        mean = by_place_[place].mean(std::min(mean * ratio, 1.0), kNeighbour);
    }
    return mean;
}

double Acceptance::drafted(int32_t i, double confidence) const {
    const double mean = drafted(i);
    if (std::isnan(confidence)) {
        return mean;
    }
    return by_confidence_[confidence_bin(confidence)].mean(mean, kPlace);
}

double Acceptance::copied(int32_t n_alike) const {
    const size_t bin = alike_bin(n_alike);
    return by_alike_[bin].mean(kCopiedExpected[bin], kCopied);
}

void Acceptance::add_drafted(int32_t i, double confidence, bool accepted) {
    by_place_[i].add(accepted ? 1.0 : 0.0);
    any_place_.add(accepted ? 1.0 : 0.0);
    if (!std::isnan(confidence)) {
        by_confidence_[confidence_bin(confidence)].add(accepted ? 1.0 : 0.0);
    }
}

void Acceptance::add_undrawn(int32_t i, double confidence) {
    by_place_[i].add(drafted(i, confidence));
}

void Acceptance::add_copied(int32_t n_alike, bool accepted) {
    by_alike_[alike_bin(n_alike)].add(accepted ? 1.0 : 0.0);
}

void Acceptance::fade() {
    any_place_.fade(kFaded);
    for (Chance &chance : by_place_) {
        chance.fade(kFaded);
    }
    for (Chance &chance : by_confidence_) {
        chance.fade(kFaded);
    }
}

}  // namespace gc
