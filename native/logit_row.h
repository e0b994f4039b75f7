// Logits of the whole vocabulary, or of some of its tokens.

#pragma once

#include <algorithm>
#include <cstdint>

namespace gc {

struct LogitRow {
    float *logits;
    int32_t n;
    const int32_t *ids = nullptr;  // the tokens, ascending; null: the i-th logit is token i's

    int32_t id(int32_t place) const { return ids == nullptr ? place : ids[place]; }

    // A token's logit, null where the row has none.
    float *find(int32_t token) const {
        if (ids == nullptr) {
            return token < n ? logits + token : nullptr;
        }
        const int32_t *found = std::lower_bound(ids, ids + n, token);
        return found != ids + n && *found == token ? logits + (found - ids) : nullptr;
    }
};

}  // namespace gc
