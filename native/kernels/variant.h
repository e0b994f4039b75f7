// The kernels of one instruction set.

#pragma once

#include "kernel.h"

namespace gc {

struct Variant {
    const char *instructions;
    Kernel kernels[6];
};

}  // namespace gc
