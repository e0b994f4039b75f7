// What the handles of the C interface stand for.

#pragma once

#include <memory>

#include "engine.h"
#include "gemmachat.h"
#include "sampler.h"
#include "session.h"

struct gc_engine {
    std::shared_ptr<gc::Engine> impl;  // shared with its sessions
};

struct gc_session {
    gc::Session impl;
};

namespace gc {

// What a caller says of sampling, whose values are checked but for the biases. Throws
// Error(GC_BAD_ARGUMENT).
SamplerOptions sampler_options(const gc_sampling &sampling, int32_t n_vocab);

}  // namespace gc
