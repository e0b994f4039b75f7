#include "schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gc {

namespace {

constexpr double kDrafterExpected = 0.8;  // acceptance before anything is known

// Probes are paid from a share of all that is spent, less of it in the first rounds: a single
// answer should cost no more than it would without.
constexpr double kProbeShare = 0.014;
constexpr double kEarlyShare = 0.007;
constexpr int32_t kEarly = 60;       // rounds
constexpr double kMostCredit = 5.0;  // in passes of one row
constexpr double kLeastCredit = -1.0;
constexpr double kCaution = 0.85;  // of the acceptance expected in a probe

constexpr int32_t kFirstPause = 4;  // rounds
constexpr int32_t kLongestPause = 64;

// Widths that were measured seldom.
constexpr double kWorthTrying = 1.05;  // hoped rate over the best one
constexpr double kHopeNone = 0.75;
constexpr double kHopeOne = 0.8;
constexpr double kDoubt = 0.4;
constexpr int32_t kOneRow = 2;     // measurements of one row that nothing can do without
constexpr int32_t kEnough = 3;     // of another width
constexpr int32_t kRetry = 12;     // rounds, doubled with every measurement
constexpr int32_t kRecheck = 256;  // rounds until what is only known from earlier runs is tried

// How far below its estimate a cost may lie that was measured so often.
double hope(int32_t known) {
    return known == 0 ? kHopeNone : known == 1 ? kHopeOne : 1.0 - kDoubt / known;
}

std::array<double, GC_MAX_DRAFT> expected_acceptance(const gc_schedule_state &saved) {
    std::array<double, GC_MAX_DRAFT> expected;
    for (size_t i = 0; i < GC_MAX_DRAFT; ++i) {
        expected[i] = saved.acceptance[i] > 0.0 ? saved.acceptance[i] : kDrafterExpected;
    }
    return expected;
}

}  // namespace

Choice best_choice(const CostTable &costs, const double *acceptance, int32_t max_drafts) {
    Choice best = {0, 1.0 / costs.verify(1)};
    double tokens = 1.0;
    double reached = 1.0;
    for (int32_t n = 1; n <= max_drafts; ++n) {
        reached *= acceptance[n - 1];
        tokens += reached;
        const double rate = tokens / (costs.verify(n + 1) + n * costs.step);
        if (rate > best.rate) {
            best = {n, rate};
        }
    }
    return best;
}

Schedule::Schedule(const gc_schedule_state &saved, bool one_width, bool learns_costs)
    : learns_costs_(learns_costs),
      costs_(saved, one_width),
      acceptance_(expected_acceptance(saved)),
      pause_(kFirstPause) {}

Source Schedule::begin(const Offer &offer) {
    offer_ = offer;
    n_drafts_ = forced_ = n_steps_ = 0;
    reached_ = 1.0;
    probing_ = parked_ = false;
    step_s_.clear();
    confidence_.fill(std::numeric_limits<double>::quiet_NaN());
    choose(offer);
    probe(offer);
    return source_;
}

void Schedule::choose(const Offer &offer) {
    std::array<double, GC_MAX_DRAFT> acceptance;
    for (int32_t i = 0; i < offer.drafter; ++i) {
        acceptance[i] = acceptance_.drafted(i);
    }
    const Choice drafter = best_choice(costs_.table(), acceptance.data(), offer.drafter);
    CostTable free_steps = costs_.table();
    free_steps.step = 0.0;
    acceptance.fill(acceptance_.copied(offer.n_alike));
    const Choice copy = best_choice(free_steps, acceptance.data(), offer.copied);

    if (copy.n_drafts > 0 && copy.rate >= drafter.rate) {
        source_ = Source::kCopy;
        n_drafts_ = copy.n_drafts;
        rate_ = copy.rate;
    } else {
        source_ = drafter.n_drafts > 0 ? Source::kDrafter : Source::kNone;
        rate_ = drafter.rate;
    }
    parked_ = source_ == Source::kNone && offer.drafter > 0;
}

// Tokens that a round with so many drafts of the drafter yields.
double Schedule::expected_tokens(int32_t n_drafts, double caution) const {
    double tokens = 1.0;
    double reached = 1.0;
    for (int32_t i = 0; i < n_drafts; ++i) {
        reached *= caution * acceptance_.drafted(i);
        tokens += reached;
    }
    return tokens;
}

// What a round with so many drafts loses against the best choice, should fewer be accepted than
// expected.
double Schedule::loss(int32_t n_drafts) const {
    const CostTable &table = costs_.table();
    const double cost = table.pass[n_drafts] + n_drafts * table.step;
    return cost - expected_tokens(n_drafts, kCaution) / rate_;
}

// Tokens per cost if its costs are as low as the few measurements allow.
double Schedule::hoped_rate(int32_t n_drafts) const {
    const CostTable &table = costs_.table();
    const double cost = hope(costs_.known(n_drafts + 1)) * table.pass[n_drafts] +
                        n_drafts * hope(costs_.known_steps()) * table.step;
    return expected_tokens(n_drafts) / cost;
}

// Whether a width was measured too seldom. Without that of one row, nobody knows what drafting is
// worth.
bool Schedule::is_unknown(int32_t n_drafts) const {
    const int32_t known = costs_.known(n_drafts + 1);
    if (known == 0 || (known < kOneRow && n_drafts == 0)) {
        return true;
    }
    if (known > kEnough && n_drafts > 0) {
        return false;
    }
    return round_ - last_try_[n_drafts] >= kRetry << std::min(known, 5);
}

// Now and then something other than the best choice, to learn: what a pass of one row costs, what
// other widths cost, and whether a parked drafter has become better.
void Schedule::probe(const Offer &offer) {
    int32_t wanted = learns_costs_ ? width_to_measure(offer) : -1;
    if (wanted < 0 && parked_ && since_drafted_ >= pause_) {
        double least = credit_;
        for (int32_t n = 1; n <= offer.drafter; ++n) {
            if (loss(n) < least) {
                least = loss(n);
                wanted = n;
            }
        }
        if (wanted > 0) {
            acceptance_.fade();
        }
    }
    if (wanted >= 0) {
        probing_ = true;
        forced_ = wanted;
        n_drafts_ = 0;
        source_ = wanted > 0 ? Source::kDrafter : Source::kNone;
    }
}

// The number of drafts whose width is worth a measurement, or -1.
int32_t Schedule::width_to_measure(const Offer &offer) const {
    if (is_unknown(0)) {
        return 0;
    }
    int32_t wanted = -1;
    double best = kWorthTrying * rate_;
    for (int32_t n = 1; n <= offer.drafter; ++n) {
        if (loss(n) > credit_) {
            continue;
        }
        if (is_unknown(n) && hoped_rate(n) > best) {
            best = hoped_rate(n);
            wanted = n;
        } else if (wanted < 0 && is_unchecked(n)) {
            wanted = n;
        }
    }
    return wanted;
}

// Whether what a width costs was only measured in earlier runs, when anything may have been in the
// way.
bool Schedule::is_unchecked(int32_t n_drafts) const {
    return costs_.measured(n_drafts + 1) == 0 && costs_.known(n_drafts + 1) > 0 &&
           round_ >= kRecheck;
}

// By how much the expected tokens of further drafts outweigh their cost, at best. next is the
// chance of the first of them.
double Schedule::gain(double next, bool step_paid) const {
    const CostTable &table = costs_.table();
    double best = -1.0;
    double tokens = 0.0;
    double reached = reached_ * next;
    for (int32_t n = n_drafts_ + 1; n <= offer_.drafter; ++n) {
        tokens += reached;
        const double cost = table.verify(n + 1) - table.verify(n_drafts_ + 1) +
                            (n - n_drafts_ - (step_paid ? 1 : 0)) * table.step;
        best = std::max(best, tokens - rate_ * cost);
        if (n < offer_.drafter) {
            reached *= acceptance_.drafted(n);
        }
    }
    return best;
}

bool Schedule::wants_step() {
    const bool wanted =
        probing_ ? n_drafts_ < forced_
                 : n_drafts_ < offer_.drafter && gain(acceptance_.drafted(n_drafts_), false) > 0.0;
    n_steps_ += wanted;
    return wanted;
}

bool Schedule::wants_draw(double confidence) {
    confidence_[n_drafts_] = confidence;
    const double next = acceptance_.drafted(n_drafts_, confidence);
    if (!probing_ && gain(next, true) < 0.0) {
        return false;
    }
    reached_ *= next;
    ++n_drafts_;
    return true;
}

int32_t Schedule::width(int32_t n_drafts) const {
    return probing_ ? n_drafts + 1 : costs_.table().width(n_drafts + 1);
}

void Schedule::end(int32_t n_drafts, int32_t n_accepted, int32_t n_copied, int32_t n_compared) {
    for (int32_t i = 0; i < n_compared && i <= n_copied; ++i) {
        acceptance_.add_copied(offer_.n_alike, i < n_copied);
    }
    if (source_ == Source::kDrafter) {
        // A draft after the first rejected one was never judged.
        for (int32_t i = 0; i < n_drafts && i <= n_accepted; ++i) {
            acceptance_.add_drafted(i, confidence_[i], i < n_accepted);
        }
        if (n_steps_ > n_drafts && n_accepted == n_drafts) {
            acceptance_.add_undrawn(n_drafts, confidence_[n_drafts]);
        }
    }
    for (const double seconds : step_s_) {
        costs_.add_step(seconds);
    }
    const double cost = costs_.table().pass[width(n_drafts) - 1] + n_steps_ * costs_.table().step;
    credit_ += (round_ < kEarly ? kEarlyShare : kProbeShare) * cost;
    if (probing_ && forced_ > 0) {
        credit_ -= cost - (n_accepted + 1) / rate_;
    }
    credit_ = std::min(std::max(credit_, kLeastCredit), kMostCredit);

    last_try_[width(n_drafts) - 1] = round_++;
    if (n_steps_ == 0) {
        ++since_drafted_;
        return;
    }
    since_drafted_ = 0;
    if (!parked_) {
        pause_ = kFirstPause;
    } else {
        const bool paid = n_accepted + 1 >= rate_ * cost;
        pause_ = paid ? 0 : std::min(std::max(2 * pause_, kFirstPause), kLongestPause);
    }
}

void Schedule::measured_pass(int32_t width, double seconds) {
    if (learns_costs_) {
        costs_.add_pass(width, seconds);
    }
}

void Schedule::measured_step(double seconds) {
    if (learns_costs_) {
        step_s_.push_back(seconds);
    }
}

gc_schedule_state Schedule::save() const {
    gc_schedule_state state = {};
    costs_.save(state);
    for (int32_t i = 0; i < GC_MAX_DRAFT; ++i) {
        state.acceptance[i] = acceptance_.drafted(i);
    }
    return state;
}

}  // namespace gc
