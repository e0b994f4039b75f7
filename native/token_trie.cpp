#include "token_trie.h"

#include <algorithm>
#include <numeric>

namespace gc {

TokenTrie::TokenTrie(const std::vector<std::string> &texts) : texts_(texts.size()) {
    std::vector<int32_t> order(texts.size());
    std::iota(order.begin(), order.end(), 0);
    const auto text = [&](int32_t id) -> const std::string & {
        return texts[static_cast<size_t>(id)];
    };
    order.erase(
        std::remove_if(order.begin(), order.end(), [&](int32_t id) { return text(id).empty(); }),
        order.end());
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return text(a) < text(b); });
    const std::string none;
    const std::string *last = &none;
    for (const int32_t id : order) {
        const std::string &current = text(id);
        const auto limit = static_cast<std::ptrdiff_t>(std::min(last->size(), current.size()));
        const auto n_shared =
            std::mismatch(current.begin(), current.begin() + limit, last->begin()).first -
            current.begin();
        entries_.push_back({id, static_cast<uint32_t>(n_shared), 0});
        texts_[static_cast<size_t>(id)] = {static_cast<uint32_t>(bytes_.size()),
                                           static_cast<uint32_t>(current.size())};
        bytes_ += current;
        longest_ = std::max(longest_, current.size());
        last = &current;
    }
    std::vector<uint32_t> later;  // entries further on, each with more in common than the next
    for (size_t i = entries_.size(); i-- > 0;) {
        while (!later.empty() && entries_[later.back()].n_shared > entries_[i].n_shared) {
            later.pop_back();
        }
        entries_[i].sibling = later.empty() ? static_cast<uint32_t>(entries_.size()) : later.back();
        later.push_back(static_cast<uint32_t>(i));
    }
}

}  // namespace gc
