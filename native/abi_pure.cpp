// The part of the C boundary that needs no model: verification and shaping on given numbers,
// grammars alone.

#include <algorithm>
#include <vector>

#include "automaton.h"
#include "boundary.h"
#include "gemmachat_pure.h"
#include "grammar_program.h"
#include "kernels/mapped_pages.h"
#include "row_kernels.h"
#include "shape.h"
#include "verify.h"

namespace {

gc::Verification verification(bool token_wise) {
    return token_wise ? gc::Verification::kTokenWise : gc::Verification::kBlock;
}

// The distribution in a row of n probabilities.
gc::Distribution distribution(const double *row, int32_t n) {
    gc::Distribution found;
    for (int32_t id = 0; id < n; ++id) {
        gc::require(row[id] >= 0.0 && row[id] <= 1.0, "a probability must be in [0, 1]");
        if (row[id] > 0.0) {
            found.push_back({id, row[id]});
        }
    }
    return found;
}

}  // namespace

gc_status gc_verify_rounds(const float *target_logits, const float *drafter_logits, int32_t n_draft,
                           int32_t n_vocab, const gc_sampling *sampling, bool token_wise,
                           int32_t n_rounds, int32_t *out, int32_t *n_out) {
    return gc::guarded([&] {
        gc::require(n_draft >= 0 && n_draft <= GC_MAX_DRAFT, "n_draft is out of range");
        gc::require(n_vocab >= 1, "n_vocab must be 1 or more");
        gc::require(target_logits != nullptr && (drafter_logits != nullptr || n_draft == 0),
                    "logits are needed");
        gc::require(sampling != nullptr, "sampling parameters are needed");
        gc::check(*sampling);
        const gc::Sampling filters = gc::shaping(*sampling);
        gc::Random random(sampling->seed);
        std::vector<gc::Draft> drafts(static_cast<size_t>(n_draft));
        std::vector<int32_t> tokens;
        const auto target_at = [&](int32_t n, gc::Distribution &p) {
            gc::shape(target_logits + static_cast<size_t>(n) * n_vocab, n_vocab, filters, p);
        };
        for (int32_t round = 0; round < n_rounds; ++round) {
            for (int32_t i = 0; i < n_draft; ++i) {
                const float *row = drafter_logits + static_cast<size_t>(i) * n_vocab;
                gc::shape(row, n_vocab, filters, drafts[i].q);
                drafts[i].token = gc::draw(drafts[i].q, random);
            }
            gc::judge(drafts, target_at, verification(token_wise), random, tokens);
            std::copy(tokens.begin(), tokens.end(),
                      out + static_cast<size_t>(round) * GC_MAX_WIDTH);
            n_out[round] = static_cast<int32_t>(tokens.size());
        }
    });
}

gc_status gc_grammar_check(const char *grammar) {
    return gc::guarded([&] {
        gc::require(grammar != nullptr, "a grammar is needed");
        gc::Automaton(gc::compile_grammar(grammar)).try_rules();
    });
}

gc_status gc_verify_law(const double *p, const double *q, const int32_t *drafts, int32_t n_draft,
                        int32_t n_vocab, bool token_wise, double *accepted, double *last) {
    return gc::guarded([&] {
        gc::require(n_draft >= 0 && n_draft <= GC_MAX_DRAFT, "n_draft is out of range");
        gc::require(n_vocab >= 1, "n_vocab must be 1 or more");
        gc::require(p != nullptr && ((q != nullptr && drafts != nullptr) || n_draft == 0),
                    "probabilities and drafts are needed");
        std::vector<gc::Draft> drawn;
        for (int32_t i = 0; i < n_draft; ++i) {
            drawn.push_back(
                {drafts[i], distribution(q + static_cast<size_t>(i) * n_vocab, n_vocab)});
            gc::require(gc::probability(drawn.back().q, drafts[i]) > 0.0,
                        "a draft cannot have been drawn from its distribution");
        }
        const auto target_at = [&](int32_t n, gc::Distribution &row) {
            row = distribution(p + static_cast<size_t>(n) * n_vocab, n_vocab);
        };
        std::fill_n(last, (static_cast<size_t>(n_draft) + 1) * n_vocab, 0.0);
        for (const gc::Outcome &outcome :
             gc::outcomes(drawn, target_at, verification(token_wise))) {
            *accepted++ = outcome.probability;
            for (const gc::Candidate &candidate : outcome.last) {
                last[candidate.id] = candidate.p;
            }
            last += n_vocab;
        }
    });
}

gc_status gc_shape_row(const float *logits, int32_t n_vocab, const gc_sampling *sampling,
                       const char *variant, int32_t *ids, double *probabilities, int32_t capacity,
                       int32_t *n_out, double *log_total) {
    return gc::guarded([&] {
        gc::require(logits != nullptr && n_vocab >= 1, "logits are needed");
        gc::require(sampling != nullptr, "sampling parameters are needed");
        gc::check(*sampling);
        const gc::RowKernels *kernels =
            variant == nullptr ? &gc::best_row_kernels() : gc::find_row_kernels(variant);
        gc::require(kernels != nullptr, "this processor does not run that variant");
        const gc::Sampling filters = gc::shaping(*sampling);
        gc::Distribution out;
        gc::RowSummary summary;
        gc::shape(logits, n_vocab, filters, out, log_total == nullptr ? nullptr : &summary,
                  *kernels);
        *n_out = static_cast<int32_t>(out.size());
        for (int32_t i = 0; i < std::min(*n_out, capacity); ++i) {
            ids[i] = out[i].id;
            probabilities[i] = out[i].p;
        }
        if (log_total != nullptr) {
            *log_total = summary.log_total;
        }
    });
}

gc_status gc_best_tokens(const float *logits, int32_t n_vocab, int32_t n, int32_t *ids,
                         float *logprobs, int32_t *n_out) {
    return gc::guarded([&] {
        gc::require(logits != nullptr && n_vocab >= 1 && n >= 1, "logits are needed");
        std::vector<gc::TokenLogprob> best;
        gc::best_tokens(logits, n_vocab, n, gc::summarise(logits, n_vocab), best);
        *n_out = static_cast<int32_t>(best.size());
        for (int32_t i = 0; i < *n_out; ++i) {
            ids[i] = best[i].id;
            logprobs[i] = best[i].logprob;
        }
    });
}

void gc_drop_mapped_pages(const void *begin, uint64_t size) { gc::drop_mapped_pages(begin, size); }
