// What passes and draft steps cost on this machine, learned while running.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gemmachat.h"

namespace gc {

// Costs in units of a pass of one row.
struct CostTable {
    std::array<double, GC_MAX_WIDTH> pass;  // of 1, 2, ... rows
    double step;                            // of drafting one token

    // The number of rows, at least n, that is cheapest: kernels work in blocks of rows, so a short
    // pass can cost more than a longer one.
    int32_t width(int32_t n_rows) const;
    double verify(int32_t n_rows) const { return pass[static_cast<size_t>(width(n_rows)) - 1]; }
};

// The last measurements of one quantity, of which some may be far off: the machine did something
// else meanwhile.
class Measured {
public:
    void add(double seconds);
    int32_t count() const { return static_cast<int32_t>(last_.size()); }
    // What a third of them are below: most that goes wrong makes them longer. 0 without any.
    double typical() const;

private:
    std::vector<double> last_;
    size_t next_ = 0;
};

class Costs {
public:
    // Starts from what was saved on this machine, in seconds; 0 stands for what is not known. With
    // one_width, every pass has GC_MAX_WIDTH rows and costs the same.
    explicit Costs(const gc_schedule_state &saved = {}, bool one_width = false);

    void add_pass(int32_t width, double seconds);
    void add_step(double seconds);

    const CostTable &table() const { return table_; }
    // How often a width was measured; what was saved counts as often.
    int32_t known(int32_t width) const;
    int32_t known_steps() const;
    // The same without what was saved.
    int32_t measured(int32_t width) const { return passes_[index(width)].count(); }
    // Fills in the seconds of every width and step that is known.
    void save(gc_schedule_state &state) const;

private:
    size_t index(int32_t width) const;
    bool is_plausible(size_t i) const;
    void update();

    bool one_width_;
    CostTable expected_;  // before anything is measured; the shape counts, not the scale
    std::array<bool, GC_MAX_WIDTH> saved_pass_ = {};
    bool saved_step_ = false;
    double saved_second_ = 0.0;  // seconds of a pass of one row, as saved; 0: unknown
    std::array<Measured, GC_MAX_WIDTH> passes_;
    Measured steps_;
    bool is_first_step_ = true;
    CostTable table_;
    double unit_s_ = 0.0;  // seconds of the table's unit; 0: unknown
};

}  // namespace gc
