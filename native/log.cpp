#include "log.h"

#include "llama.h"

namespace gc {

namespace {

thread_local std::string first_error;

void remember(ggml_log_level level, const char *text, void *) {
    if (level != GGML_LOG_LEVEL_ERROR) {
        return;
    }
    try {
        // Loading ends with a general line; the first one holds the reason.
        if (first_error.empty()) {
            first_error = text;
            while (!first_error.empty() &&
                   (first_error.back() == '\n' || first_error.back() == ' ')) {
                first_error.pop_back();
            }
        }
    } catch (...) {
        first_error.clear();
    }
}

}  // namespace

void install_log() { llama_log_set(remember, nullptr); }

void clear_log() { first_error.clear(); }

std::string logged_reason() { return first_error.empty() ? "" : ": " + first_error; }

}  // namespace gc
