#include "logprobs.h"

#include <algorithm>
#include <cmath>

namespace gc {

Logprobs describe_logprobs(int32_t token, const float *logits, int32_t n_vocab,
                           const RowSummary &summary, const Distribution &p, int32_t n) {
    const auto describe = [&](int32_t id) {
        return gc_logprob{id, summary.log_probability(logits[id]),
                          static_cast<float>(std::log(probability(p, id)))};
    };
    Logprobs found = {describe(token), {}, {}};
    std::vector<TokenLogprob> best;
    best_tokens(logits, n_vocab, n, summary, best);
    for (const TokenLogprob &candidate : best) {
        found.raw.push_back(describe(candidate.id));
    }
    Distribution likely = p;
    const auto end = likely.begin() + std::min<std::ptrdiff_t>(n, std::ptrdiff_t(likely.size()));
    std::partial_sort(likely.begin(), end, likely.end(),
                      [](const Candidate &a, const Candidate &b) {
                          return a.p > b.p || (a.p == b.p && a.id < b.id);
                      });
    std::for_each(likely.begin(), end, [&](const Candidate &candidate) {
        found.final.push_back(describe(candidate.id));
    });
    return found;
}

}  // namespace gc
