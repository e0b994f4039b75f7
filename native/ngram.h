// Places of a timeline that are like its end: what followed them may follow again (prompt lookup,
// Saxena 2023; also "n-gram drafts").

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace gc {

constexpr int32_t kLeastAlike = 3;   // tokens that make a place like another
constexpr int32_t kMostAlike = 32;   // tokens that are compared
constexpr int32_t kMostPlaces = 64;  // earlier places that are looked at

// An earlier place.
struct Match {
    int32_t n_alike = 0;   // tokens before it that are the same, at most kMostAlike; 0: none found
    int32_t position = 0;  // of the token that follows there
};

// Grows and shrinks with the timeline at its end, each token in constant time. Memory: some 60
// bytes a token.
class NgramIndex {
public:
    int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
    void append(int32_t token);
    // Forgets all tokens from the n-th on.
    void cut(int32_t n);

    // Of the kMostPlaces latest places behind the last kLeastAlike tokens, the one with the most
    // tokens alike, the latest of several. The same timeline has the same answer, however it came
    // to be.
    Match find() const;
    // Up to n tokens that followed; where they run into the end of the timeline they go on with
    // themselves.
    void continuation(const Match &match, int32_t n, std::vector<int32_t> &out) const;

private:
    int32_t alike(int32_t last) const;

    std::vector<int32_t> tokens_;
    std::vector<int32_t> previous_;  // place with the same last tokens before, by last token; -1
    std::unordered_map<uint64_t, int32_t> latest_;  // place, by a hash of its last tokens
};

}  // namespace gc
