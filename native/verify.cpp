#include "verify.h"

namespace gc {

namespace {

// Draws from max(0, p - q), normalised.
int32_t draw_residual(const Distribution &p, const Distribution &q, Random &random) {
    thread_local Distribution residual;
    residual.clear();
    auto other = q.begin();
    double total = 0.0;
    for (const Candidate &candidate : p) {
        while (other != q.end() && other->id < candidate.id) {
            ++other;
        }
        const double qx = other != q.end() && other->id == candidate.id ? other->p : 0.0;
        if (candidate.p > qx) {
            residual.push_back({candidate.id, candidate.p - qx});
            total += candidate.p - qx;
        }
    }
    // Only rounding can reject a draft where p <= q everywhere; p = q then, and p is the answer.
    if (residual.empty()) {
        return draw(p, random);
    }
    for (Candidate &candidate : residual) {
        candidate.p /= total;
    }
    return draw(residual, random);
}

}  // namespace

void judge(const float *logits, int32_t n_vocab, const std::vector<Draft> &drafts,
           const Sampling &sampling, Random &random, std::vector<int32_t> &tokens) {
    thread_local Distribution p;
    tokens.clear();
    for (const Draft &draft : drafts) {
        shape(logits, n_vocab, sampling, p);
        logits += n_vocab;
        if (random.uniform() * probability(draft.q, draft.token) >= probability(p, draft.token)) {
            tokens.push_back(draw_residual(p, draft.q, random));
            return;
        }
        tokens.push_back(draft.token);
    }
    shape(logits, n_vocab, sampling, p);
    tokens.push_back(draw(p, random));
}

}  // namespace gc
