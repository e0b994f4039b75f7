// llama.cpp's log, kept out of the terminal: only the first complaint of a call is remembered.

#pragma once

#include <string>

namespace gc {

// Takes over llama.cpp's log for the whole process.
void install_log();

// Forgets what this thread's calls have logged.
void clear_log();

// The first error llama.cpp logged on this thread since clear_log, as ": text", or nothing.
std::string logged_reason();

}  // namespace gc
