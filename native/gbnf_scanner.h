// The small parts of GBNF text: spaces, names, numbers, characters.

#pragma once

#include <cstdint>
#include <string>

namespace gc {

// A place in a text, which must outlive it. What cannot be read throws Error(GC_BAD_ARGUMENT) with
// the line.
class GbnfScanner {
public:
    explicit GbnfScanner(const std::string &text) : text_(text) {}

    [[noreturn]] void fail(const std::string &what) const;

    bool at_end() const { return at_ >= text_.size(); }
    // The byte here, or the one so many further on; NUL past the end.
    char here(size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    bool at_name() const;

    // Goes past what must stand here.
    bool take(char c);
    bool take(const char *word);
    void skip_space(bool lines);
    std::string name();
    int32_t number(int32_t max);
    // A code point of a literal or a class, maybe escaped.
    uint32_t character();

private:
    uint32_t escaped();
    uint32_t hex(int32_t n_digits);
    uint32_t checked(uint32_t code) const;

    const std::string &text_;
    size_t at_ = 0;
};

}  // namespace gc
