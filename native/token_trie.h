// The vocabulary's texts, in an order that shares the work on common beginnings.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gc {

class TokenTrie {
public:
    // texts[id] is the text of token id; tokens without one stay out.
    explicit TokenTrie(const std::vector<std::string> &texts);

    std::string_view text(int32_t id) const {
        const Text &text = texts_[static_cast<size_t>(id)];
        return std::string_view(bytes_).substr(text.offset, text.n_bytes);
    }

    // Walks all texts from a state. next(state, byte) is the state after a byte, negative where it
    // is of no use to go on; visit(id) is called for every token whose whole text was walked.
    template <typename Next, typename Visit>
    void walk(int32_t state, Next next, Visit visit) const {
        std::vector<int32_t> path(longest_ + 1);
        path[0] = state;
        size_t dead = longest_ + 1;  // so many bytes of the path lead nowhere
        for (size_t i = 0; i < entries_.size();) {
            const Entry &entry = entries_[i];
            if (entry.n_shared >= dead) {
                i = entry.sibling;
                continue;
            }
            dead = longest_ + 1;
            const std::string_view text = this->text(entry.id);
            for (size_t n = entry.n_shared; n < text.size() && dead > longest_; ++n) {
                path[n + 1] = next(path[n], static_cast<uint8_t>(text[n]));
                if (path[n + 1] < 0) {
                    dead = n + 1;
                }
            }
            if (dead > longest_) {
                visit(entry.id);
            }
            i = dead == entry.n_shared + 1 ? entry.sibling : i + 1;
        }
    }

private:
    struct Text {
        uint32_t offset;
        uint32_t n_bytes;
    };
    struct Entry {
        int32_t id;
        uint32_t n_shared;  // bytes in common with the entry before
        uint32_t sibling;   // the next entry that has no more of them: those between only go on
    };

    std::vector<Entry> entries_;  // by text
    std::vector<Text> texts_;     // by id
    std::string bytes_;
    size_t longest_ = 0;
};

}  // namespace gc
