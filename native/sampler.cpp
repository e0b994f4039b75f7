#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "error.h"

namespace gc {

namespace {

// How many of the best tokens are shown to the grammar before the whole vocabulary is.
constexpr int32_t kFirstLook = 256;

void add(std::unordered_map<int32_t, int32_t> &counts, int32_t token, int32_t n) {
    if ((counts[token] += n) == 0) {
        counts.erase(token);
    }
}

// The tokens of a row's n best logits; ties go to the smaller id.
std::vector<int32_t> best(const LogitRow &row, int32_t n, const RowSummary &summary) {
    std::vector<TokenLogprob> found;
    best_tokens(row.logits, row.n, n, summary, found);
    std::vector<int32_t> ids;
    for (const TokenLogprob &token : found) {
        ids.push_back(row.id(token.id));
    }
    return ids;
}

}  // namespace

Sampler::Sampler(const Engine &engine, SamplerOptions options)
    : engine_(engine), options_(std::move(options)) {
    if (!options_.grammar.text.empty()) {
        grammar_ = std::make_unique<Grammar>(engine_, options_.grammar);
    }
}

void Sampler::begin(const std::vector<int32_t> &prompt) {
    window_.clear();
    answer_.clear();
    tokens_.clear();
    n_pushed_ = 0;
    answer_start_ = prompt.size();
    for (const int32_t token : prompt) {
        remember(token);
    }
    if (grammar_ != nullptr) {
        grammar_->restart();
    }
}

int32_t Sampler::answer_length() const {
    return static_cast<int32_t>(tokens_.size() - answer_start_);
}

void Sampler::remember(int32_t token) {
    tokens_.push_back(token);
    count(tokens_.size(), 1);
}

void Sampler::forget() {
    count(tokens_.size(), -1);
    tokens_.pop_back();
}

// The size-th token enters the counts, or leaves them again with n = -1.
void Sampler::count(size_t size, int32_t n) {
    const int32_t token = tokens_[size - 1];
    if (options_.repeat_penalty != 1.0f && options_.repeat_window != 0) {
        add(window_, token, n);
        const auto window = static_cast<size_t>(options_.repeat_window);
        if (options_.repeat_window > 0 && size > window) {
            add(window_, tokens_[size - 1 - window], -n);
        }
    }
    if (size > answer_start_ && counts_answer()) {
        add(answer_, token, n);
    }
}

bool Sampler::counts_answer() const {
    return options_.presence_penalty != 0.0f || options_.frequency_penalty != 0.0f;
}

void Sampler::push(int32_t token) {
    if (grammar_ != nullptr) {
        grammar_->push(token);
    }
    remember(token);
    ++n_pushed_;
}

void Sampler::rewind() {
    for (; n_pushed_ > 0; --n_pushed_) {
        forget();
    }
    if (grammar_ != nullptr) {
        grammar_->rewind();
    }
}

void Sampler::commit(int32_t token) {
    if (grammar_ != nullptr) {
        grammar_->commit(token);
    }
    remember(token);
}

void Sampler::set(float *logit, float value) {
    edits_.push_back({logit, *logit});
    *logit = value;
}

// Applies what concerns single tokens; edits_ restores the row when undone in reverse.
void Sampler::edit(const LogitRow &row) {
    edits_.clear();
    for (const LogitBias &bias : options_.bias) {
        if (float *logit = row.find(bias.token)) {
            set(logit, *logit + bias.value);
        }
    }
    if (options_.repeat_penalty != 1.0f) {
        for (const auto &[token, count] : window_) {
            if (float *logit = row.find(token)) {
                set(logit, *logit > 0.0f ? *logit / options_.repeat_penalty
                                         : *logit * options_.repeat_penalty);
            }
        }
    }
    if (counts_answer()) {
        for (const auto &[token, count] : answer_) {
            if (float *logit = row.find(token)) {
                set(logit, *logit - options_.presence_penalty -
                               static_cast<float>(count) * options_.frequency_penalty);
            }
        }
    }
    // A thought is no answer: under a grammar the turn cannot end inside of it.
    const bool in_thought = grammar_ != nullptr && grammar_->waits();
    if (answer_length() < options_.min_tokens || in_thought) {
        for (const int32_t token : engine_.ends()) {
            if (float *logit = row.find(token)) {
                set(logit, -INFINITY);
            }
        }
    }
}

void Sampler::distribution(const LogitRow &row, Distribution &out, RowSummary *raw) {
    edit(row);
    const auto restore = [&] {
        for (auto edit = edits_.rbegin(); edit != edits_.rend(); ++edit) {
            *edit->logit = edit->original;
        }
    };
    try {
        if (grammar_ != nullptr && !grammar_->waits()) {
            shape_allowed(row, out, raw);
        } else {
            shape(row.logits, row.n, options_.shaping, out, raw);
            for (Candidate &candidate : out) {
                candidate.id = row.id(candidate.id);
            }
        }
    } catch (const Error &error) {
        restore();
        const bool damaged =
            std::any_of(row.logits, row.logits + row.n, [](float x) { return !(x < INFINITY); }) ||
            std::all_of(row.logits, row.logits + row.n, [](float x) { return x == -INFINITY; });
        if (error.status == GC_BAD_LOGITS && !damaged && !edits_.empty()) {
            throw Error(GC_NO_TOKEN, "every token that could come next is banned");
        }
        throw;
    } catch (...) {
        restore();
        throw;
    }
    restore();
    if (raw != nullptr && !edits_.empty()) {
        *raw = summarise(row.logits, row.n);
    }
}

// The distribution over the tokens that the grammar allows. Filters that keep few tokens need to
// know few of them: often enough of the best are allowed.
void Sampler::shape_allowed(const LogitRow &row, Distribution &out, RowSummary *summary) {
    const Sampling &shaping = options_.shaping;
    int32_t wanted = shaping.temperature == 0.0f ? 1 : shaping.top_k;
    if (wanted <= 0 || wanted > row.n) {
        wanted = row.n;
    }
    const RowSummary whole = summarise(row.logits, row.n);  // throws on a damaged row
    if (summary != nullptr) {
        *summary = whole;
    }
    std::vector<int32_t> ids;
    if (wanted < row.n) {
        ids = best(row, std::min(std::max(kFirstLook, wanted), row.n), whole);
        grammar_->keep_allowed(ids);
        std::sort(ids.begin(), ids.end());
    }
    if (static_cast<int32_t>(ids.size()) < wanted) {
        ids = grammar_->allowed();
    }
    const auto impossible = [&](int32_t id) {
        const float *logit = row.find(id);
        return logit == nullptr || *logit == -INFINITY;
    };
    ids.erase(std::remove_if(ids.begin(), ids.end(), impossible), ids.end());
    if (ids.empty()) {
        throw Error(GC_NO_TOKEN, answer_length() < options_.min_tokens
                                     ? "the grammar ends before the answer has its minimum length"
                                     : "the grammar allows no token that could come next");
    }
    std::vector<float> allowed(ids.size());
    std::transform(ids.begin(), ids.end(), allowed.begin(),
                   [&](int32_t id) { return *row.find(id); });
    shape(allowed.data(), static_cast<int32_t>(ids.size()), shaping, out);
    for (Candidate &candidate : out) {
        candidate.id = ids[static_cast<size_t>(candidate.id)];
    }
}

}  // namespace gc
