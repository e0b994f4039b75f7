#include "schedule.h"

namespace gc {

namespace {

// Four rows in one pass are the cheapest way to draft: llama.cpp's matrix kernels work in fours,
// and a pass of four costs about 1.4 times a pass of one on the machines measured.
constexpr int32_t kDraft = 3;
constexpr double kRoundCost = 1.5;  // draft steps and a four-row pass, in one-row passes
constexpr double kInitialAcceptance = 0.7;
constexpr double kMemory = 0.9;        // weight of the past in the running acceptance
constexpr int32_t kParkedRounds = 24;  // rounds without drafts before a probe

}  // namespace

std::array<double, GC_MAX_DRAFT> Schedule::initial_acceptance() {
    std::array<double, GC_MAX_DRAFT> acceptance;
    acceptance.fill(kInitialAcceptance);
    return acceptance;
}

int32_t Schedule::draft_length() const { return parked() ? 0 : kDraft; }

double Schedule::expected_gain() const {
    double tokens = 1.0;
    double reached = 1.0;
    for (int32_t i = 0; i < kDraft; ++i) {
        reached *= acceptance_[i];
        tokens += reached;
    }
    return tokens / kRoundCost;
}

void Schedule::record(int32_t n_drafted, int32_t n_accepted) {
    if (n_drafted == 0) {
        if (parked_rounds_ > 0) {
            --parked_rounds_;
        }
        return;
    }
    // A draft after the first rejected one was never judged.
    for (int32_t i = 0; i < n_drafted && i <= n_accepted; ++i) {
        const double outcome = i < n_accepted ? 1.0 : 0.0;
        acceptance_[i] = kMemory * acceptance_[i] + (1.0 - kMemory) * outcome;
    }
    if (expected_gain() < 1.0) {
        parked_rounds_ = kParkedRounds;
    }
}

}  // namespace gc
