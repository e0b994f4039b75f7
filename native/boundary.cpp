#include "boundary.h"

#include <cmath>
#include <string>

namespace gc {

namespace {

thread_local std::string last_error;

}  // namespace

gc_status fail(gc_status status, const char *text) noexcept {
    try {
        last_error = text;
    } catch (...) {
        last_error.clear();
    }
    return status;
}

void require(bool condition, const char *text) {
    if (!condition) {
        throw Error(GC_BAD_ARGUMENT, text);
    }
}

void check(const gc_sampling &sampling) {
    require(std::isfinite(sampling.temperature) && sampling.temperature >= 0.0f,
            "temperature must be 0 or more");
    require(sampling.top_k >= 0, "top_k must be 0 or more");
    require(sampling.top_p > 0.0f && sampling.top_p <= 1.0f, "top_p must be in (0, 1]");
    require(sampling.min_p >= 0.0f && sampling.min_p <= 1.0f, "min_p must be in [0, 1]");
    require(sampling.typical_p > 0.0f && sampling.typical_p <= 1.0f, "typical_p must be in (0, 1]");
    require(std::isfinite(sampling.repeat_penalty) && sampling.repeat_penalty > 0.0f,
            "repeat_penalty must be above 0");
    require(sampling.repeat_window >= -1, "repeat_window must be -1 or more");
    require(std::isfinite(sampling.presence_penalty) && std::isfinite(sampling.frequency_penalty),
            "penalties must be finite numbers");
    require(sampling.min_tokens >= 0, "min_tokens must be 0 or more");
    require(sampling.n_logprobs >= 0 && sampling.n_logprobs <= GC_MAX_LOGPROBS,
            "n_logprobs is out of range");
    require(sampling.n_bias >= 0 && (sampling.bias != nullptr || sampling.n_bias == 0),
            "biases are needed");
}

void check(const gc_schedule_state &saved) {
    for (const double seconds : saved.pass_s) {
        require(std::isfinite(seconds) && seconds >= 0.0, "seconds must be 0 or more");
    }
    require(std::isfinite(saved.step_s) && saved.step_s >= 0.0, "seconds must be 0 or more");
    for (const double chance : saved.acceptance) {
        require(chance >= 0.0 && chance <= 1.0, "an acceptance must be in [0, 1]");
    }
}

Sampling shaping(const gc_sampling &sampling) {
    return {sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p,
            sampling.typical_p};
}

}  // namespace gc

const char *gc_last_error(void) { return gc::last_error.c_str(); }
