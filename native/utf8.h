// UTF-8, byte by byte.

#pragma once

#include <cstdint>

namespace gc {

// Where in a character a text stands.
class Utf8 {
public:
    // Goes on by a byte; false where no text in UTF-8 goes on so.
    bool next(uint8_t byte) {
        if (n_left_ > 0) {
            const bool fits = byte >= low_ && byte <= high_;
            n_left_ -= 1;
            low_ = 0x80;
            high_ = 0xBF;
            return fits;
        }
        if (byte < 0x80) {
            return true;
        }
        // The second byte's range keeps out overlong forms, surrogates and what is past U+10FFFF.
        n_left_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
        low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
        high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
        return byte >= 0xC2 && byte <= 0xF4;
    }

private:
    uint8_t n_left_ = 0;
    uint8_t low_ = 0x80;
    uint8_t high_ = 0xBF;
};

}  // namespace gc
