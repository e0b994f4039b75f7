// The random stream of a session: SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable
// pseudorandom number generators"), one draw per decision, never rewound.

#pragma once

#include <cstdint>

namespace gc {

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    // Uniform in [0, 1), 53 bits.
    double uniform() {
        uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1.0p-53;
    }

private:
    uint64_t state_;
};

}  // namespace gc
