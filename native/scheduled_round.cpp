// A session's rounds when it decides by itself what to draft.

#include <algorithm>
#include <chrono>
#include <new>

#include "session.h"
#include "stopwatch.h"

namespace gc {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// Asks the schedule, and tells it what each step cost.
class TimedGuide : public Guide {
public:
    explicit TimedGuide(Schedule &schedule) : schedule_(schedule) {}

    bool wants_step() override {
        start_ = Clock::now();
        return schedule_.wants_step();
    }

    bool wants_draw(double confidence) override {
        schedule_.measured_step(seconds_since(start_));
        return schedule_.wants_draw(confidence);
    }

private:
    Schedule &schedule_;
    Clock::time_point start_;
};

}  // namespace

// What followed at an earlier place like this one, up to n tokens or the end of a turn.
Match Session::look_up(int32_t n) {
    for (size_t i = static_cast<size_t>(ngrams_.size()); i < committed_.size(); ++i) {
        ngrams_.append(committed_[i]);
    }
    const Match match = ngrams_.find();
    ngrams_.continuation(match, n, looked_up_);
    const auto end = std::find_if(looked_up_.begin(), looked_up_.end(),
                                  [this](int32_t token) { return engine_->is_end(token); });
    if (end != looked_up_.end()) {
        looked_up_.erase(end + 1, looked_up_.end());
    }
    return match;
}

const std::vector<Draft> &Session::scheduled_drafts(Schedule &schedule, const Offer &offer) {
    switch (schedule.begin(offer)) {
        case Source::kDrafter: {
            TimedGuide guide(schedule);
            return draft(guide);
        }
        case Source::kCopy:
            copies_ = certain(looked_up_.data(), schedule.n_drafts());
            return copies_;
        default:
            return no_drafts_;
    }
}

int32_t Session::scheduled_round(int32_t limit, gc_token *out) {
    Schedule &schedule = repeatable_ ? *repeatable_ : schedule_;
    const int32_t room = std::min(limit - 1, GC_MAX_DRAFT);
    Match match;
    looked_up_.clear();
    // By decree, copies would be accepted as often as drafts that cost something.
    if (!synthetic_acceptance_) {
        match = look_up(room);
    }
    const std::vector<Draft> &drafts = scheduled_drafts(
        schedule,
        {hidden_.empty() ? 0 : room, static_cast<int32_t>(looked_up_.size()), match.n_alike});
    const auto n_drafts = static_cast<int32_t>(drafts.size());
    const int32_t width = exact_ ? GC_MAX_WIDTH : schedule.width(n_drafts);

    const Clock::time_point start = Clock::now();
    const int32_t n_out = finish_round(drafts, width, out);
    const double seconds = seconds_since(start);
    ++stats_.rounds_by_width[width - 1];
    try {
        schedule.measured_pass(width, seconds);
        end_scheduled_round(schedule, n_drafts);
    } catch (const std::bad_alloc &) {
        // The tokens are part of the timeline already; only this measurement is lost.
    }
    return n_out;
}

void Session::end_scheduled_round(Schedule &schedule, int32_t n_drafts) {
    const auto n_compared = static_cast<int32_t>(std::min(looked_up_.size(), judged_.size()));
    int32_t n_alike = 0;
    while (n_alike < n_compared &&
           judged_[static_cast<size_t>(n_alike)].id == looked_up_[static_cast<size_t>(n_alike)]) {
        ++n_alike;
    }
    const auto n_accepted = static_cast<int32_t>(judged_ids_.size()) - 1;
    const bool copied = schedule.source() == Source::kCopy;
    stats_.parked_rounds += schedule.parked();
    stats_.drafter_rounds += schedule.source() == Source::kDrafter;
    stats_.copied_rounds += copied;
    stats_.copied_drafted += copied ? n_drafts : 0;
    stats_.copied_accepted += copied ? n_accepted : 0;
    schedule.end(n_drafts, n_accepted, n_alike, n_compared);
    std::copy(schedule.costs().pass.begin(), schedule.costs().pass.end(), stats_.pass_cost);
    stats_.step_cost = schedule.costs().step;
}

}  // namespace gc
