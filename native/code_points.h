// Sets of Unicode code points, and the bytes that stand for them in UTF-8 (RFC 3629).

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gc {

constexpr uint32_t kLastCodePoint = 0x10FFFF;

// Both ends included. In a set, ranges ascend and do not touch.
struct CodeRange {
    uint32_t low;
    uint32_t high;
};

std::vector<CodeRange> merged(std::vector<CodeRange> ranges);
std::vector<CodeRange> complement(const std::vector<CodeRange> &set);

void append_utf8(std::string &out, uint32_t code);

// Texts of one length: any byte of the first range, then any of the second, and so on.
struct ByteRange {
    uint8_t low;
    uint8_t high;
};
using ByteSequence = std::vector<ByteRange>;

// The encodings of a set: each code point in exactly one sequence. NUL and surrogates have none.
std::vector<ByteSequence> utf8_sequences(const std::vector<CodeRange> &set);

}  // namespace gc
