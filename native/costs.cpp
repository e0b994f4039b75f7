#include "costs.h"

#include <algorithm>
#include <cmath>

namespace gc {

namespace {

// What to expect of an unknown machine. llama.cpp's matrix kernels on CPUs work in fours, so that
// four rows cost less than two.
constexpr CostTable kUnknown = {{1.0, 1.4, 1.6, 1.5, 1.8, 2.0, 2.1, 2.1}, 0.08};

constexpr size_t kWindow = 31;     // measurements that count
constexpr int32_t kSaved = 3;      // measurements that what was saved counts for
constexpr double kLinear = 1.25;   // times the cost of rows alone: more is not plausible
constexpr double kPadding = 0.97;  // of the cost: less is not worth computing more rows

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

double Measured::median() const {
    if (last_.empty()) {
        return 0.0;
    }
    std::vector<double> sorted = last_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 3);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle;
}

Costs::Costs(const gc_schedule_state &saved, bool one_width)
    : one_width_(one_width), expected_(kUnknown) {
    if (saved.pass_s[0] > 0.0) {
        saved_second_ = saved.pass_s[0];
        for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
            saved_pass_[i] = saved.pass_s[i] > 0.0;
            if (saved_pass_[i]) {
                expected_.pass[i] = saved.pass_s[i] / saved_second_;
            }
        }
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
    steps_.add(seconds);
    update();
}

int32_t Costs::known(int32_t width) const {
    const size_t i = index(width);
    return passes_[i].count() + (saved_pass_[i] ? kSaved : 0);
}

int32_t Costs::known_steps() const { return steps_.count() + (saved_step_ ? kSaved : 0); }

// A single measurement may be anything, but rows in one pass cannot cost much more than each in a
// pass of its own.
bool Costs::is_plausible(size_t i) const {
    const double alone = passes_[0].median() * static_cast<double>(i + 1);
    return passes_[i].count() > 1 || alone == 0.0 || passes_[i].median() < kLinear * alone;
}

// The expected table, bent to go through what was measured: each measured width asks for a factor,
// widths between two of them get what lies between.
void Costs::update() {
    std::array<double, GC_MAX_WIDTH> factor = {};  // logarithms
    std::vector<size_t> measured;
    for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
        if (passes_[i].count() > 0 && is_plausible(i)) {
            factor[i] = std::log(std::max(passes_[i].median(), 1e-9) / expected_.pass[i]);
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
            const double weight = saved_pass_[i] ? kSaved : 0.0;
            factor[i] = (n * factor[i] + weight * scale) / (n + weight);
        }
        for (size_t i = 0; i < GC_MAX_WIDTH; ++i) {
            const auto above = std::lower_bound(measured.begin(), measured.end(), i);
            const size_t hi = above == measured.end() ? measured.back() : *above;
            const size_t lo = above == measured.begin() ? hi : hi == i ? i : *(above - 1);
            const double part =
                hi > lo ? static_cast<double>(i - lo) / static_cast<double>(hi - lo) : 0.0;
            table_.pass[i] =
                expected_.pass[i] * std::exp((1.0 - part) * factor[lo] + part * factor[hi]);
        }
        table_.step = expected_.step * std::exp(scale);
        if (steps_.count() > 0) {
            table_.step = steps_.median();
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
        state.pass_s[i] = known(width) >= kSaved ? unit_s_ * table_.pass[i] : 0.0;
    }
    state.step_s = known_steps() >= kSaved ? unit_s_ * table_.step : 0.0;
}

}  // namespace gc
