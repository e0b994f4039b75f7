// How many tokens to draft, by whom, and how many rows to verify them with: what gives the most
// tokens per second, by the costs and the acceptance seen so far. Pure: reads no clock.
//
// Why a draft may stop where the schedule says so and nothing is biased. Whether a further token
// joins the drafts x_1 ... x_i is decided from finished rounds, the tokens x_1 ... x_i and the
// distributions q_1 ... q_i+1. All of these are fixed before x_i+1 is drawn, and x_1 ... x_i are
// kept as drafts either way. So the places where drafting stops are a set of prefixes that no
// later draw can change, and for any such set both verifications keep the target's law: token-wise
// rejection looks at one place at a time, and block verification (Sun et al. 2024, arXiv
// 2403.10444) decides about a prefix from its weight, a function of p and q along it, while the
// last one stands with just that weight wherever the draft ends. Dropping x_i+1 for what it is
// would make the kept ones a sample of something other than q. Which source drafts, and copied
// tokens (q a point mass), depend on the timeline and on finished rounds alone.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "acceptance.h"
#include "costs.h"
#include "gemmachat.h"

namespace gc {

// What could be drafted in a round.
struct Offer {
    int32_t drafter = 0;  // most tokens that the drafter may draft
    int32_t copied = 0;   // tokens that an earlier place like this one offers
    int32_t n_alike = 0;  // tokens before it that are the same
};

enum class Source { kNone, kDrafter, kCopy };

// The number of drafts with the most expected tokens per cost, and that rate. acceptance[i] is the
// chance of draft i given those before it. Of equal choices, the shortest.
struct Choice {
    int32_t n_drafts;
    double rate;
};
Choice best_choice(const CostTable &costs, const double *acceptance, int32_t max_drafts);

class Schedule {
public:
    // Starts from what was saved. With learns_costs it goes by its own measurements and tries
    // widths that it does not know; without, every decision follows from the accepted drafts
    // alone, so that it is the same in every run.
    Schedule(const gc_schedule_state &saved, bool one_width, bool learns_costs);

    // Begins a round: who drafts. With kCopy, n_drafts() tokens.
    Source begin(const Offer &offer);
    int32_t n_drafts() const { return n_drafts_; }
    Source source() const { return source_; }

    // The drafter asks before a pass for the next token, and before it draws from what the pass
    // computed. confidence: the probability of the likeliest token at temperature 1, unfiltered.
    bool wants_step();
    bool wants_draw(double confidence);

    // Rows of the pass that verifies n drafts.
    int32_t width(int32_t n_drafts) const;

    // Ends a round in which n_drafts were judged and the first n_accepted accepted. What the
    // earlier place offered was right for the first n_copied tokens of n_compared.
    void end(int32_t n_drafts, int32_t n_accepted, int32_t n_copied, int32_t n_compared);

    void measured_pass(int32_t width, double seconds);
    void measured_step(double seconds);

    // It chose not to draft although it could have.
    bool parked() const { return parked_ && source_ == Source::kNone; }
    const CostTable &costs() const { return costs_.table(); }
    gc_schedule_state save() const;

private:
    void choose(const Offer &offer);
    void probe(const Offer &offer);
    double loss(int32_t n_drafts) const;
    double hoped_rate(int32_t n_drafts) const;
    bool is_unknown(int32_t n_drafts) const;
    bool is_unchecked(int32_t n_drafts) const;
    int32_t width_to_measure(const Offer &offer) const;
    double gain(double next, bool step_paid) const;
    double expected_tokens(int32_t n_drafts, double caution = 1.0) const;

    bool learns_costs_;
    Costs costs_;
    Acceptance acceptance_;

    // The round.
    Offer offer_;
    Source source_ = Source::kNone;
    double rate_ = 1.0;  // tokens per cost of the best choice
    int32_t n_drafts_ = 0;
    int32_t forced_ = 0;  // drafts of a probe, verified at exactly their width
    bool probing_ = false;
    bool parked_ = false;
    int32_t n_steps_ = 0;
    double reached_ = 1.0;  // chance that all drafts so far are accepted
    std::array<double, GC_MAX_DRAFT> confidence_;
    std::vector<double> step_s_;  // measured; costs stay what they are until the round ends

    double credit_ = 0.0;
    int32_t since_drafted_ = 0;  // rounds
    int64_t round_ = 0;
    std::array<int64_t, GC_MAX_WIDTH> last_try_ = {};  // round of each width
    int32_t pause_;                                    // rounds until a parked drafter is probed
};

}  // namespace gc
