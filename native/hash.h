// Fingerprints for comparing bit for bit: FNV-1a, of floats over 32-bit words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gc {

inline uint64_t hash_floats(const float *values, size_t n) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &values[i], sizeof(bits));
        hash = (hash ^ bits) * 0x100000001b3ULL;
    }
    return hash;
}

inline uint64_t hash_bytes(const uint8_t *bytes, size_t n) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < n; ++i) {
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
    }
    return hash;
}

}  // namespace gc
