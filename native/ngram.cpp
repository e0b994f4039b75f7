#include "ngram.h"

#include <cstddef>

namespace gc {

namespace {

constexpr int32_t kNowhere = -1;

// Of the kLeastAlike tokens up to this one. Two that share a hash are told apart when compared.
uint64_t hash_of(const int32_t *last) {
    uint64_t hash = 0;
    for (int32_t i = 0; i < kLeastAlike; ++i) {
        hash = (hash ^ static_cast<uint32_t>(last[-i])) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

void NgramIndex::append(int32_t token) {
    const int32_t place = size();
    tokens_.push_back(token);
    try {
        previous_.push_back(kNowhere);
    } catch (...) {
        tokens_.pop_back();
        throw;
    }
    if (size() >= kLeastAlike) {
        const auto [entry, is_new] = latest_.try_emplace(hash_of(&tokens_.back()), place);
        if (!is_new) {
            previous_.back() = entry->second;
            entry->second = place;
        }
    }
}

void NgramIndex::cut(int32_t n) {
    while (size() > n) {
        if (size() >= kLeastAlike) {
            const auto entry = latest_.find(hash_of(&tokens_.back()));
            if (entry == latest_.end()) {
                // Memory ran out when it was to be entered.
            } else if (previous_.back() == kNowhere) {
                latest_.erase(entry);
            } else {
                entry->second = previous_.back();
            }
        }
        tokens_.pop_back();
        previous_.pop_back();
    }
}

// How many tokens up to this one are those at the end.
int32_t NgramIndex::alike(int32_t last) const {
    const int32_t end = size() - 1;
    int32_t n = 0;
    while (n < kMostAlike && n <= last && tokens_[last - n] == tokens_[end - n]) {
        ++n;
    }
    return n;
}

Match NgramIndex::find() const {
    Match best;
    if (size() == 0) {
        return best;
    }
    int32_t place = previous_.back();
    for (int32_t i = 0; i < kMostPlaces && place != kNowhere; ++i) {
        const int32_t n = alike(place);
        if (n >= kLeastAlike && n > best.n_alike) {
            best = {n, place + 1};
        }
        place = previous_[place];
    }
    return best;
}

void NgramIndex::continuation(const Match &match, int32_t n, std::vector<int32_t> &out) const {
    out.clear();
    if (match.n_alike == 0) {
        return;
    }
    for (int32_t i = match.position; i < match.position + n; ++i) {
        out.push_back(i < size() ? tokens_[i] : out[static_cast<size_t>(i - size())]);
    }
}

}  // namespace gc
