#include "gbnf_scanner.h"

#include <algorithm>
#include <cstring>

#include "code_points.h"
#include "error.h"

namespace gc {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

int32_t hex_value(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

void GbnfScanner::fail(const std::string &what) const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(at_);
    const auto line = 1 + std::count(text_.begin(), end, '\n');
    throw Error(GC_BAD_ARGUMENT, "the grammar's line " + std::to_string(line) + ": " + what);
}

bool GbnfScanner::at_name() const { return is_name_char(here()); }

bool GbnfScanner::take(char c) {
    if (here() != c) {
        return false;
    }
    ++at_;
    return true;
}

bool GbnfScanner::take(const char *word) {
    const size_t n = std::strlen(word);
    if (text_.compare(at_, n, word) != 0) {
        return false;
    }
    at_ += n;
    return true;
}

void GbnfScanner::skip_space(bool lines) {
    while (!at_end()) {
        const char c = here();
        if (c == '#') {
            at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
        } else if (c == ' ' || c == '\t' || (lines && (c == '\r' || c == '\n'))) {
            ++at_;
        } else {
            break;
        }
    }
}

std::string GbnfScanner::name() {
    const size_t start = at_;
    while (at_name()) {
        ++at_;
    }
    if (at_ == start) {
        fail("a rule's name is expected here");
    }
    return text_.substr(start, at_ - start);
}

int32_t GbnfScanner::number(int32_t max) {
    if (!is_digit(here())) {
        fail("a number is expected here");
    }
    int32_t value = 0;
    while (is_digit(here())) {
        value = value * 10 + (here() - '0');
        if (value > max) {
            fail("a number above " + std::to_string(max));
        }
        ++at_;
    }
    return value;
}

uint32_t GbnfScanner::character() {
    if (at_end()) {
        fail("it ends inside of quotes or brackets");
    }
    if (take('\\')) {
        return escaped();
    }
    const auto lead = static_cast<uint8_t>(here());
    ++at_;
    const int32_t n_more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    uint32_t code = n_more == 0 ? lead : lead & (0x3Fu >> n_more);
    for (int32_t i = 0; i < n_more; ++i) {
        if ((here() & 0xC0) != 0x80) {
            fail("it is not UTF-8");
        }
        code = code << 6 | (static_cast<uint8_t>(here()) & 0x3F);
        ++at_;
    }
    return checked(code);
}

uint32_t GbnfScanner::escaped() {
    const char kind = here();
    ++at_;
    switch (kind) {
        case 'x':
            return hex(2);
        case 'u':
            return hex(4);
        case 'U':
            return hex(8);
        case 'n':
            return '\n';
        case 'r':
            return '\r';
        case 't':
            return '\t';
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-':
            return static_cast<uint32_t>(kind);
        default:
            --at_;
            fail("an unknown \\ escape");
    }
}

uint32_t GbnfScanner::hex(int32_t n_digits) {
    uint32_t code = 0;
    for (int32_t i = 0; i < n_digits; ++i) {
        const int32_t digit = hex_value(here());
        if (digit < 0) {
            fail("an escape needs " + std::to_string(n_digits) + " hexadecimal digits");
        }
        code = code << 4 | static_cast<uint32_t>(digit);
        ++at_;
    }
    return checked(code);
}

uint32_t GbnfScanner::checked(uint32_t code) const {
    if (code > kLastCodePoint) {
        fail("a character beyond U+10FFFF");
    }
    return code;
}

}  // namespace gc
