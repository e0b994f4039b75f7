// llama.cpp's log, kept out of the terminal: only the first complaint of a call is remembered, and
// only a failed assertion is shown.

#pragma once

#include <string>

namespace gc {

// Takes over llama.cpp's log for the whole process. An assertion that fails inside llama.cpp then
// ends the process with one sentence and exit code 1, or 5 when an allocation had failed before.
void install_log();

// Forgets what this thread's calls have logged.
void clear_log();

// The first error llama.cpp logged on this thread since clear_log, as ": text", or nothing.
std::string logged_reason();

// Whether that error says that an allocation failed.
bool logged_out_of_memory();

}  // namespace gc
