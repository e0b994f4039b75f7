#include <cstring>
#include <initializer_list>

#include "row_kernels.h"

namespace gc {

extern const RowKernels portable;
#if defined(GC_X86_VARIANTS)
extern const RowKernels avx2;
extern const RowKernels avx512;
#endif

const RowKernels *find_row_kernels(const char *name) {
    const auto is = [name](const RowKernels &kernels) {
        return std::strcmp(name, kernels.name) == 0;
    };
#if defined(GC_X86_VARIANTS)
    if (is(avx512)) {
        return __builtin_cpu_supports("avx512f") ? &avx512 : nullptr;
    }
    if (is(avx2)) {
        return __builtin_cpu_supports("avx2") ? &avx2 : nullptr;
    }
#endif
    return is(portable) ? &portable : nullptr;
}

const RowKernels &best_row_kernels() {
    static const RowKernels *const best = [] {
        for (const char *name : {"avx512", "avx2"}) {
            if (const RowKernels *found = find_row_kernels(name)) {
                return found;
            }
        }
        return &portable;
    }();
    return *best;
}

}  // namespace gc
