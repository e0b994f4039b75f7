#include "log.h"

#include <unistd.h>

#include <cerrno>
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
void end_process(const char *message) {
    const bool no_memory = errno == ENOMEM || logged_out_of_memory();
    std::string_view reason(message);  // folder/file.c:line: text
    reason.remove_prefix(reason.rfind('/', reason.find(": ")) + 1);
    char line[1024];
    char *end = line;
    for (const std::string_view part :
         {std::string_view("error: llama.cpp "),
          std::string_view(no_memory ? "ran out of memory" : "failed"),
          std::string_view(" and cannot go on: "), reason.substr(0, 900)}) {
        for (const char c : part) {
            *end++ = c >= ' ' && c <= '~' ? c : '?';
        }
    }
    *end++ = '\n';
    [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, line, static_cast<size_t>(end - line));
    _exit(no_memory ? 5 : 1);
}

}  // namespace

void install_log() {
    llama_log_set(remember, nullptr);
    ggml_set_abort_callback(end_process);
}

void clear_log() { first_error.clear(); }

bool logged_out_of_memory() {
    for (const char *text : {" allocate ", "bad_alloc", "insufficient memory"}) {
        if (first_error.find(text) != std::string::npos) {
            return true;
        }
    }
    return false;
}

std::string logged_reason() { return first_error.empty() ? "" : ": " + first_error; }

}  // namespace gc
