// The part of the C boundary that needs no model: the schedule and the n-gram index alone.

#include <algorithm>
#include <cmath>
#include <vector>

#include "boundary.h"
#include "gemmachat_pure.h"
#include "ngram.h"
#include "schedule.h"

struct gc_schedule {
    gc::Schedule impl;
};

struct gc_ngram {
    gc::NgramIndex impl;
};

gc_status gc_schedule_new(const gc_schedule_state *saved, bool one_width, bool learns_costs,
                          gc_schedule **schedule) {
    return gc::guarded([&] {
        gc::require(saved != nullptr, "a state is needed");
        gc::check(*saved);
        *schedule = new gc_schedule{gc::Schedule(*saved, one_width, learns_costs)};
    });
}

void gc_schedule_free(gc_schedule *schedule) { delete schedule; }

gc_status gc_schedule_begin(gc_schedule *schedule, int32_t drafter, int32_t copied, int32_t n_alike,
                            int32_t *source, int32_t *n_drafts) {
    return gc::guarded([&] {
        gc::require(
            drafter >= 0 && drafter <= GC_MAX_DRAFT && copied >= 0 && copied <= GC_MAX_DRAFT,
            "an offer is out of range");
        *source = static_cast<int32_t>(schedule->impl.begin({drafter, copied, n_alike}));
        *n_drafts = schedule->impl.n_drafts();
    });
}

bool gc_schedule_wants_step(gc_schedule *schedule) { return schedule->impl.wants_step(); }

bool gc_schedule_wants_draw(gc_schedule *schedule, double confidence) {
    return schedule->impl.wants_draw(confidence);
}

int32_t gc_schedule_width(const gc_schedule *schedule, int32_t n_drafts) {
    return schedule->impl.width(n_drafts);
}

gc_status gc_schedule_end(gc_schedule *schedule, int32_t n_drafts, int32_t n_accepted,
                          int32_t n_copied, int32_t n_compared) {
    return gc::guarded([&] {
        gc::require(
            n_drafts >= 0 && n_drafts <= GC_MAX_DRAFT && n_accepted >= 0 && n_accepted <= n_drafts,
            "drafts are out of range");
        schedule->impl.end(n_drafts, n_accepted, n_copied, n_compared);
    });
}

gc_status gc_schedule_measured_pass(gc_schedule *schedule, int32_t width, double seconds) {
    return gc::guarded([&] {
        gc::require(width >= 1 && width <= GC_MAX_WIDTH, "a width is out of range");
        schedule->impl.measured_pass(width, seconds);
    });
}

void gc_schedule_measured_step(gc_schedule *schedule, double seconds) {
    schedule->impl.measured_step(seconds);
}

void gc_schedule_save(const gc_schedule *schedule, gc_schedule_state *state) {
    *state = schedule->impl.save();
}

gc_status gc_best_choice(const double *pass, double step, const double *acceptance,
                         int32_t max_drafts, int32_t *n_drafts, double *rate) {
    return gc::guarded([&] {
        gc::require(pass != nullptr && acceptance != nullptr, "costs and acceptance are needed");
        gc::require(max_drafts >= 0 && max_drafts <= GC_MAX_DRAFT, "max_drafts is out of range");
        gc::CostTable costs = {{}, step};
        std::copy_n(pass, GC_MAX_WIDTH, costs.pass.begin());
        const gc::Choice choice = gc::best_choice(costs, acceptance, max_drafts);
        *n_drafts = choice.n_drafts;
        *rate = choice.rate;
    });
}

gc_status gc_ngram_new(gc_ngram **index) {
    return gc::guarded([&] { *index = new gc_ngram{}; });
}

void gc_ngram_free(gc_ngram *index) { delete index; }

gc_status gc_ngram_append(gc_ngram *index, const int32_t *tokens, int32_t n_tokens) {
    return gc::guarded([&] {
        gc::require(tokens != nullptr || n_tokens == 0, "tokens are needed");
        for (int32_t i = 0; i < n_tokens; ++i) {
            index->impl.append(tokens[i]);
        }
    });
}

void gc_ngram_cut(gc_ngram *index, int32_t n_tokens) { index->impl.cut(std::max(n_tokens, 0)); }

gc_status gc_ngram_find(const gc_ngram *index, int32_t max_tokens, int32_t *tokens,
                        int32_t *n_tokens, int32_t *n_alike) {
    return gc::guarded([&] {
        std::vector<int32_t> found;
        const gc::Match match = index->impl.find();
        index->impl.continuation(match, max_tokens, found);
        std::copy(found.begin(), found.end(), tokens);
        *n_tokens = static_cast<int32_t>(found.size());
        *n_alike = match.n_alike;
    });
}
