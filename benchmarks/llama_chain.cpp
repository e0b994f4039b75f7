// One token from one row of logits the way llama.cpp's own programs draw it: the row becomes an
// array of candidates, a chain of samplers works on that. benchmarks/sampling.py compiles this.

#include <cstdint>
#include <vector>

#include "llama.h"

extern "C" int32_t sample_row(llama_sampler *chain, const float *logits, int32_t n_vocab) {
    static std::vector<llama_token_data> data;
    data.resize(static_cast<size_t>(n_vocab));
    for (int32_t id = 0; id < n_vocab; ++id) {
        data[id] = llama_token_data{id, logits[id], 0.0f};
    }
    llama_token_data_array candidates = {data.data(), data.size(), -1, false};
    llama_sampler_apply(chain, &candidates);
    return candidates.data[candidates.selected].id;
}
