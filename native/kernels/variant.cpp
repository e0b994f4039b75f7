// Compiled several times, see CMakeLists.txt: GC_VARIANT names the instruction set, and the
// compiler's flags give it.

#include "variant.h"

#include "iq4_nl.h"
#include "q4_0.h"
#include "q4_k.h"
#include "q5_k.h"
#include "q6_k.h"
#include "q8_0.h"

#define GC_TEXT_OF(name) #name
#define GC_TEXT(name) GC_TEXT_OF(name)

namespace gc {

namespace kernels {

namespace {

template <typename Type>
size_t group_size(int64_t k) {
    return static_cast<size_t>(k / Type::kColumns) * sizeof(typename Type::Block);
}

template <typename Type>
constexpr Kernel kernel(const char *name, ggml_type type,
                        void (*quantize)(const float *, int64_t, void *)) {
    return {name,
            type,
            kGroupRows,
            Type::kColumns,
            group_size<Type>,
            Type::pack,
            Type::activation_size,
            quantize,
            multiply<Type>};
}

}  // namespace

extern const Variant GC_VARIANT;
const Variant GC_VARIANT = {
    GC_TEXT(GC_VARIANT),
    {
        kernel<Q4_0>("q4_0 " GC_TEXT(GC_VARIANT), GGML_TYPE_Q4_0, quantize_activations32),
        kernel<IQ4_NL>("iq4_nl " GC_TEXT(GC_VARIANT), GGML_TYPE_IQ4_NL, quantize_activations32),
        kernel<Q8_0>("q8_0 " GC_TEXT(GC_VARIANT), GGML_TYPE_Q8_0, quantize_activations32_fours),
        kernel<Q4_K>("q4_K " GC_TEXT(GC_VARIANT), GGML_TYPE_Q4_K, quantize_activations256),
        kernel<Q5_K>("q5_K " GC_TEXT(GC_VARIANT), GGML_TYPE_Q5_K, quantize_activations256),
        kernel<Q6_K>("q6_K " GC_TEXT(GC_VARIANT), GGML_TYPE_Q6_K, quantize_activations256),
    },
};

}  // namespace kernels

}  // namespace gc
