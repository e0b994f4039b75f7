// A failure inside the library, on its way to the C boundary.

#pragma once

#include <stdexcept>
#include <string>

#include "gemmachat.h"

namespace gc {

struct Error : std::runtime_error {
    Error(gc_status status, const std::string &text) : std::runtime_error(text), status(status) {}

    gc_status status;
};

}  // namespace gc
