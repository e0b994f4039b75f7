#include "costs.h"

#include <algorithm>
#include <cmath>

namespace gc {

namespace {

// What to expect of an unknown machine, between what was measured on one with AVX-512, whose
// kernels work in fours (1, 1.6, 2.2, 1.3, 2.1, 2.5, 2.7, 2.3), and one with AVX2
// (1, 1.8, 2.7, 2.6, 3.6, 4.4, 5.0, 5.0).
constexpr CostTable kUnknown = {{1.0, 1.5, 2.0, 1.9, 2.6, 3.0, 3.3, 3.2}, 0.05};

constexpr size_t kWindow = 31;        // measurements that count
constexpr int32_t kSaved = 3;         // measurements that what was saved counts for
constexpr int32_t kWorthSaving = 2;   // measurements: one alone may be anything
constexpr double kLinear = 1.25;      // times the cost of rows alone: more is not plausible
constexpr double kUnexpected = 2.3;   // times the expected cost: the same
constexpr double kFarAbove = 1.5;     // saved cost over a measured one
constexpr double kDearestStep = 1.0;  // in passes of one row: a drafter is far smaller
constexpr double kPadding = 0.97;     // of the cost: less is not worth computing more rows

// A table bent to go through given costs: each asks for a factor, whose logarithms factor holds,
// and places between two of them get what lies between.
std::array<double, GC_MAX_WIDTH> bent(const std::array<double, GC_MAX_WIDTH> &pass,
                                      const std::array<double, GC_MAX_WIDTH> &factor,
                                      const std::vector<size_t> &given) {
    std::array<double, GC_MAX_WIDTH> out;
    for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
        const auto above = std::lower_bound(given.begin(), given.end(), i);
        const size_t hi = above == given.end() ? given.back() : *above;
        const size_t lo = above == given.begin() ? hi : hi == i ? i : *(above - 1);
        const double part =
            hi > lo ? static_cast<double>(i - lo) / static_cast<double>(hi - lo) : 0.0;
        out[i] = pass[i] * std::exp((1.0 - part) * factor[lo] + part * factor[hi]);
    }
    return out;
}

}  // namespace

int32_t CostTable::width(int32_t n_rows) const {
    int32_t best = n_rows;
    for (int32_t width = n_rows + 1; width <= GC_MAX_WIDTH; ++width) {
        const double limit = best == n_rows ? kPadding : 1.0;
        if (pass[static_cast<size_t>(width) - 1] < limit * pass[static_cast<size_t>(best) - 1]) {
            best = width;
        }
    }
    return best;
}

void Measured::add(double seconds) {
    if (last_.size() < kWindow) {
        last_.push_back(seconds);
        return;
    }
    last_[next_] = seconds;
    next_ = (next_ + 1) % kWindow;
}

double Measured::typical() const {
    if (last_.empty()) {
        return 0.0;
    }
    std::vector<double> sorted = last_;
    const auto third = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 3);
    std::nth_element(sorted.begin(), third, sorted.end());
    return *third;
}

Costs::Costs(const gc_schedule_state &saved, bool one_width)
    : one_width_(one_width), expected_(kUnknown) {
    if (saved.pass_s[0] > 0.0) {
        saved_second_ = saved.pass_s[0];
        std::array<double, GC_MAX_WIDTH> factor = {};
        std::vector<size_t> given;
        for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
            saved_pass_[i] = saved.pass_s[i] > 0.0;
            if (saved_pass_[i]) {
                factor[i] = std::log(saved.pass_s[i] / saved_second_ / expected_.pass[i]);
                given.push_back(i);
            }
        }
        expected_.pass = bent(expected_.pass, factor, given);
        saved_step_ = saved.step_s > 0.0;
        if (saved_step_) {
            expected_.step = saved.step_s / saved_second_;
        }
    }
    update();
}

size_t Costs::index(int32_t width) const {
    return static_cast<size_t>(one_width_ ? GC_MAX_WIDTH : width) - 1;
}

void Costs::add_pass(int32_t width, double seconds) {
    passes_[index(width)].add(seconds);
    update();
}

void Costs::add_step(double seconds) {
    // The first one sets up what all others use.
    if (is_first_step_) {
        is_first_step_ = false;
        return;
    }
    steps_.add(seconds);
    update();
}

int32_t Costs::known(int32_t width) const {
    return measured(width) + (saved_pass_[index(width)] ? kSaved : 0);
}

int32_t Costs::known_steps() const { return steps_.count() + (saved_step_ ? kSaved : 0); }

// A single measurement may be anything, but rows in one pass cannot cost much more than each in a
// pass of its own, and rarely cost a multiple of what is expected.
bool Costs::is_plausible(size_t i) const {
    const double one_row = passes_[0].typical();
    const double most = std::min(kLinear * static_cast<double>(i + 1),
                                 kUnexpected * expected_.pass[i] / expected_.pass[0]);
    return passes_[i].count() > 1 || one_row == 0.0 || passes_[i].typical() < most * one_row;
}

// The expected table, bent to go through what was measured.
void Costs::update() {
    std::array<double, GC_MAX_WIDTH> factor = {};  // logarithms
    std::vector<size_t> measured;
    for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
        if (passes_[i].count() > 0 && is_plausible(i)) {
            factor[i] = std::log(std::max(passes_[i].typical(), 1e-9) / expected_.pass[i]);
            measured.push_back(i);
        }
    }
    if (measured.empty()) {
        table_ = expected_;
        unit_s_ = saved_second_;
    } else {
        const double scale = factor[measured.front()];
        for (const size_t i : measured) {
            const double n = passes_[i].count();
            // Something else can only have made a pass slower: what is far above cannot be right.
            const bool credible = saved_pass_[i] && scale - factor[i] < std::log(kFarAbove);
            const double weight = credible ? kSaved : 0.0;
            factor[i] = (n * factor[i] + weight * scale) / (n + weight);
        }
        table_.pass = bent(expected_.pass, factor, measured);
        table_.step = expected_.step * std::exp(scale);
        if (steps_.count() > 0) {
            // In logarithms, as the passes; what was saved counts for some measurements.
            const double n = steps_.count();
            const double weight = saved_step_ ? kSaved : 0.0;
            const double measured_step = std::log(std::max(steps_.typical(), 1e-9));
            table_.step =
                std::exp((n * measured_step + weight * std::log(table_.step)) / (n + weight));
        }
        unit_s_ = 1.0;
    }
    if (one_width_) {
        table_.pass.fill(table_.pass.back());
    }
    const double unit = table_.pass.front();
    for (double &pass : table_.pass) {
        pass /= unit;
    }
    table_.step /= unit;
    unit_s_ *= unit;
}

void Costs::save(gc_schedule_state &state) const {
    for (int32_t width = 1; width <= GC_MAX_WIDTH; ++width) {
        const size_t i = static_cast<size_t>(width) - 1;
        const bool worth_saving = known(width) >= kWorthSaving && table_.pass[i] <= kLinear * width;
        state.pass_s[i] = worth_saving ? unit_s_ * table_.pass[i] : 0.0;
    }
    const bool worth_saving = known_steps() >= kWorthSaving && table_.step <= kDearestStep;
    state.step_s = worth_saving ? unit_s_ * table_.step : 0.0;
}

}  // namespace gc
