#include "code_points.h"

#include <algorithm>

namespace gc {

namespace {

int32_t n_bytes(uint32_t code) {
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

// Adds a range whose code points have encodings of one length. Where the last i bytes do not run
// over all their values, it is cut until they do, or the bytes before them are the same.
void add_sequences(CodeRange range, std::vector<ByteSequence> &out) {
    const int32_t n = n_bytes(range.low);
    for (int32_t i = 1; i < n; ++i) {
        const uint32_t mask = (1u << 6 * i) - 1;
        if ((range.low & ~mask) == (range.high & ~mask)) {
            continue;
        }
        uint32_t cut = range.high;  // the last code point of the first part
        if ((range.low & mask) != 0) {
            cut = range.low | mask;
        } else if ((range.high & mask) != mask) {
            cut = (range.high & ~mask) - 1;
        }
        if (cut != range.high) {
            add_sequences({range.low, cut}, out);
            add_sequences({cut + 1, range.high}, out);
            return;
        }
    }
    std::string low;
    std::string high;
    append_utf8(low, range.low);
    append_utf8(high, range.high);
    ByteSequence sequence;
    for (size_t i = 0; i < low.size(); ++i) {
        sequence.push_back({static_cast<uint8_t>(low[i]), static_cast<uint8_t>(high[i])});
    }
    out.push_back(std::move(sequence));
}

}  // namespace

std::vector<CodeRange> merged(std::vector<CodeRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const CodeRange &a, const CodeRange &b) { return a.low < b.low; });
    std::vector<CodeRange> set;
    for (const CodeRange &range : ranges) {
        if (!set.empty() && range.low <= set.back().high + 1) {
            set.back().high = std::max(set.back().high, range.high);
        } else {
            set.push_back(range);
        }
    }
    return set;
}

std::vector<CodeRange> complement(const std::vector<CodeRange> &set) {
    std::vector<CodeRange> out;
    uint32_t low = 0;
    for (const CodeRange &range : set) {
        if (range.low > low) {
            out.push_back({low, range.low - 1});
        }
        low = range.high + 1;
    }
    if (low <= kLastCodePoint) {
        out.push_back({low, kLastCodePoint});
    }
    return out;
}

void append_utf8(std::string &out, uint32_t code) {
    const int32_t n_more = n_bytes(code) - 1;
    if (n_more == 0) {
        out += static_cast<char>(code);
        return;
    }
    const uint32_t lead = 0xFF00u >> (n_more + 1) & 0xFF;  // as many ones as there are bytes
    out += static_cast<char>(lead | code >> 6 * n_more);
    for (int32_t i = n_more - 1; i >= 0; --i) {
        out += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
    }
}

std::vector<ByteSequence> utf8_sequences(const std::vector<CodeRange> &set) {
    // The code points of each length of encoding; surrogates lie between the third and the fourth.
    constexpr CodeRange kLengths[] = {
        {0x1, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, kLastCodePoint}};
    std::vector<ByteSequence> out;
    for (const CodeRange &range : set) {
        for (const CodeRange &length : kLengths) {
            const CodeRange part = {std::max(range.low, length.low),
                                    std::min(range.high, length.high)};
            if (part.low <= part.high) {
                add_sequences(part, out);
            }
        }
    }
    return out;
}

}  // namespace gc
