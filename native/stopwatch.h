// Measures parts of a round.

#pragma once

#include <chrono>

namespace gc {

// Adds the life of the object to a total, in seconds.
class Stopwatch {
public:
    explicit Stopwatch(double &total) : total_(total) {}
    ~Stopwatch() {
        total_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch &operator=(const Stopwatch &) = delete;

private:
    double &total_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace gc
