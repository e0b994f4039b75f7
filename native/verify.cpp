#include "verify.h"

#include <utility>

namespace gc {

namespace {

// A decision left to chance: true with the given probability.
using Decide = std::function<bool(double probability)>;

// Calls take(id, weight * p(x) - q(x)) for every token x where that is positive.
template <typename Take>
void for_excess(double weight, const Distribution &p, const Distribution &q, Take take) {
    auto other = q.begin();
    for (const Candidate &candidate : p) {
        while (other != q.end() && other->id < candidate.id) {
            ++other;
        }
        const double qx = other != q.end() && other->id == candidate.id ? other->p : 0.0;
        const double excess = weight * candidate.p - qx;
        if (excess > 0.0) {
            take(candidate.id, excess);
        }
    }
}

// max(0, weight * p - q), normalised.
void residual(double weight, const Distribution &p, const Distribution &q, Distribution &out) {
    out.clear();
    double total = 0.0;
    for_excess(weight, p, q, [&](int32_t id, double excess) {
        out.push_back({id, excess});
        total += excess;
    });
    // Only rounding can ask for it where p <= q everywhere; p = q then, and p is the answer.
    if (out.empty()) {
        out = p;
        return;
    }
    for (Candidate &candidate : out) {
        candidate.p /= total;
    }
}

// min(1, weight * p(x)/q(x)) for the draft x.
double next_weight(double weight, const Distribution &p, const Draft &draft) {
    const double wanted = weight * probability(p, draft.token);
    const double offered = probability(draft.q, draft.token);
    if (wanted <= 0.0) {
        return 0.0;
    }
    return wanted < offered ? wanted / offered : 1.0;
}

// Returns how many drafts are kept, and in last the distribution of the token after them.
int32_t keep_token_wise(const std::vector<Draft> &drafts, const TargetAt &target_at,
                        const Decide &decide, Distribution &last) {
    thread_local Distribution p;
    int32_t n = 0;
    for (const Draft &draft : drafts) {
        target_at(n, p);
        if (!decide(next_weight(1.0, p, draft))) {
            residual(1.0, p, draft.q, last);
            return n;
        }
        ++n;
    }
    target_at(n, last);
    return n;
}

// The weight w of n drafts is the chance that n or more are kept, given these n. With S the sum of
// max(0, w * p - q) over the tokens that can follow, w - S is that chance for n + 1, averaged over
// the next draft, and S is left for keeping exactly n. So n "stands" with probability
// S/(S + 1 - w), whatever the drafts after it, and the largest n that stands is taken.
int32_t keep_block(const std::vector<Draft> &drafts, const TargetAt &target_at,
                   const Decide &decide, Distribution &last) {
    thread_local Distribution p;
    thread_local Distribution kept_p;
    double weight = 1.0;
    double kept_weight = 1.0;
    int32_t kept = 0;
    int32_t n = 0;
    for (const Draft &draft : drafts) {
        target_at(n, p);
        double stands = 1.0;
        if (weight < 1.0) {
            double sum = 0.0;
            for_excess(weight, p, draft.q, [&](int32_t, double excess) { sum += excess; });
            stands = sum / (sum + 1.0 - weight);
        }
        const double next = next_weight(weight, p, draft);
        if (decide(stands)) {
            kept = n;
            kept_weight = weight;
            std::swap(p, kept_p);
        }
        weight = next;
        ++n;
        if (weight == 0.0) {
            break;  // and so for all that follow
        }
    }
    if (decide(weight)) {
        target_at(n, last);
        return n;
    }
    residual(kept_weight, kept_p, drafts[kept].q, last);
    return kept;
}

int32_t keep(const std::vector<Draft> &drafts, const TargetAt &target_at, Verification verification,
             const Decide &decide, Distribution &last) {
    return verification == Verification::kBlock ? keep_block(drafts, target_at, decide, last)
                                                : keep_token_wise(drafts, target_at, decide, last);
}

}  // namespace

void judge(const std::vector<Draft> &drafts, const TargetAt &target_at, Verification verification,
           Random &random, std::vector<int32_t> &tokens) {
    thread_local Distribution last;
    const auto decide = [&](double probability) { return random.uniform() < probability; };
    const int32_t n = keep(drafts, target_at, verification, decide, last);
    tokens.clear();
    for (int32_t i = 0; i < n; ++i) {
        tokens.push_back(drafts[i].token);
    }
    tokens.push_back(draw(last, random));
}

std::vector<Outcome> outcomes(const std::vector<Draft> &drafts, const TargetAt &target_at,
                              Verification verification) {
    std::vector<Outcome> found(drafts.size() + 1);
    Distribution last;
    // Each path is the first decisions of a run; the run goes on with yes wherever that is
    // possible, and leaves the other answer behind as a path of its own.
    std::vector<std::vector<bool>> paths{{}};
    while (!paths.empty()) {
        std::vector<bool> path = std::move(paths.back());
        paths.pop_back();
        size_t n_decided = 0;
        double chance = 1.0;
        const auto decide = [&](double probability) {
            if (n_decided == path.size()) {
                const bool yes = probability > 0.0;
                if (yes && probability < 1.0) {
                    paths.push_back(path);
                    paths.back().push_back(false);
                }
                path.push_back(yes);
            }
            const bool yes = path[n_decided++];
            chance *= yes ? probability : 1.0 - probability;
            return yes;
        };
        const int32_t n = keep(drafts, target_at, verification, decide, last);
        found[n].probability += chance;
        found[n].last = last;
    }
    return found;
}

double expected_kept(const std::vector<Draft> &drafts, const TargetAt &target_at,
                     Verification verification) {
    const bool block = verification == Verification::kBlock;
    Distribution p;
    double sum = 0.0;
    double chance = 1.0;
    int32_t n = 0;
    for (const Draft &draft : drafts) {
        target_at(n++, p);
        chance = block ? next_weight(chance, p, draft) : chance * next_weight(1.0, p, draft);
        sum += chance;
        if (chance == 0.0) {
            break;  // the target cannot be asked behind a token that it cannot draw
        }
    }
    return sum;
}

}  // namespace gc
