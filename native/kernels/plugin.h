// Plugs the matrix kernels into the llama.cpp of this process, once.

#pragma once

#include <string>

namespace gc {

struct Plugin {
    bool installed;
    // The kernels' names, such as "q4_0 avx2, q8_0 avx2"; where not installed, why not.
    std::string status;
};

// Installs what this processor has, or with instructions the kernels of that set alone; the first
// call decides. It must come before llama.cpp has loaded any model, or it has no effect, and while
// llama.cpp computes nothing, as ggml reads the list that this changes. Nothing is computed
// differently until a model is loaded under a Packing.
const Plugin &plug_in(const char *instructions = nullptr);

// What plug_in has done, and nothing where it was never called.
const Plugin &plugin();

}  // namespace gc
