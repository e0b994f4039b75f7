#include "kernel.h"

#include <cstring>

#include "variant.h"

namespace gc {

namespace kernels {
extern const Variant portable;
extern const Variant portable16;
#if defined(GC_X86_VARIANTS)
extern const Variant avx2;
#endif
}  // namespace kernels

namespace {

struct Choice {
    const Variant *variant;
    bool runs;   // on this processor
    bool gains;  // over ggml's own
};

// The fastest first.
const Choice *choices(size_t *count) {
    static const Choice all[] = {
#if defined(GC_X86_VARIANTS)
        {&kernels::avx2,
         __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("avx"),
         true},
#endif
        {&kernels::portable, true, false},
        {&kernels::portable16, true, false},
    };
    *count = sizeof(all) / sizeof(all[0]);
    return all;
}

const Kernel *kernel_of(const Variant &variant, ggml_type type) {
    for (const Kernel &kernel : variant.kernels) {
        if (kernel.type == type) {
            return &kernel;
        }
    }
    return nullptr;
}

}  // namespace

const Kernel *find_kernel(ggml_type type) {
    size_t count;
    const Choice *all = choices(&count);
    for (size_t i = 0; i < count; ++i) {
        if (all[i].runs && all[i].gains) {
            return kernel_of(*all[i].variant, type);
        }
    }
    return nullptr;
}

const Kernel *find_kernel(ggml_type type, const char *instructions) {
    size_t count;
    const Choice *all = choices(&count);
    for (size_t i = 0; i < count; ++i) {
        if (std::strcmp(all[i].variant->instructions, instructions) == 0) {
            return all[i].runs ? kernel_of(*all[i].variant, type) : nullptr;
        }
    }
    return nullptr;
}

}  // namespace gc
