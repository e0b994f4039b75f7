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
#endif
#if defined(GC_HAS_AVXVNNI)
extern const Variant avxvnni;
#endif
#if defined(GC_HAS_AVX512VNNI)
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
// Not every compiler's __builtin_cpu_supports knows F16C.
bool runs_f16c() {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1) != 0;
}

bool runs_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && runs_f16c();
}
#endif

#if defined(GC_HAS_AVX512VNNI)
bool runs_avx512vnni() {
    return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(GC_HAS_AVXVNNI)
bool runs_avxvnni() {
    unsigned a, b, c, d;
    return runs_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
#endif

// The fastest first. That those after AVX2 gain is a guess: nobody has measured them.
const Choice *choices(size_t *count) {
    static const Choice all[] = {
#if defined(GC_HAS_AVX512VNNI)
        {&kernels::avx512vnni, runs_avx512vnni(), true},
#endif
#if defined(GC_HAS_AVXVNNI)
        {&kernels::avxvnni, runs_avxvnni(), true},
#endif
#if defined(GC_X86_VARIANTS)
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
