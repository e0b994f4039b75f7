#include "log.h"

#include "llama.h"

namespace gc {

namespace {

thread_local std::string last_error;

void remember(ggml_log_level level, const char *text, void *) {
    if (level != GGML_LOG_LEVEL_ERROR) {
        return;
    }
    try {
        // Loading ends with a general line; the first one holds the reason.
        if (last_error.empty()) {
            last_error = text;
            while (!last_error.empty() && (last_error.back() == '\n' || last_error.back() == ' ')) {
                last_error.pop_back();
            }
        }
    } catch (...) {
        last_error.clear();
    }
}

}  // namespace

void install_log() { llama_log_set(remember, nullptr); }

void clear_log() { last_error.clear(); }

std::string logged_reason() { return last_error.empty() ? "" : ": " + last_error; }

}  // namespace gc
