#include "log.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

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

// What llama.cpp calls instead of dying with a backtrace. Its state is lost and any thread may be
// here, so this neither returns, throws nor allocates.
void end_process(const char *reason) {
    constexpr std::string_view kBefore = "error: llama.cpp failed and cannot go on: ";
    char line[1024];
    char *end = std::copy(kBefore.begin(), kBefore.end(), line);
    while (*reason != '\0' && end < line + sizeof(line) - 1) {
        const char c = *reason++;
        *end++ = c >= ' ' && c <= '~' ? c : '?';
    }
    *end++ = '\n';
    [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, line, static_cast<size_t>(end - line));
    _exit(1);
}

}  // namespace

void install_log() {
    llama_log_set(remember, nullptr);
    ggml_set_abort_callback(end_process);
}

void clear_log() { first_error.clear(); }

std::string logged_reason() { return first_error.empty() ? "" : ": " + first_error; }

}  // namespace gc
