#include "kernel.h"

#include <cstring>

#if defined(GC_X86_VARIANTS)
#include <cpuid.h>
#endif

#include "variant.h"

namespace gc {

namespace kernels {
extern const Variant portable;
extern const Variant portable16;
#if defined(GC_X86_VARIANTS)
extern const Variant avx2;
extern const Variant avxvnni;
extern const Variant avx512vnni;
#endif
}  // namespace kernels

namespace {

struct Choice {
    const Variant *variant;
    bool runs;   // on this processor
    bool gains;  // over ggml's own
};

#if defined(GC_X86_VARIANTS)
// Every processor with AVX2 and FMA has the conversions of F16C.
bool runs_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool runs_avx512vnni() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}

bool runs_avxvnni() {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

// The fastest first.
const Choice *choices(size_t *count) {
    static const Choice all[] = {
#if defined(GC_X86_VARIANTS)
        {&kernels::avx512vnni, runs_avx2() && runs_avx512vnni(), true},
        {&kernels::avxvnni, runs_avx2() && runs_avxvnni(), true},
        {&kernels::avx2, runs_avx2(), true},
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
