// Compiled several times, see CMakeLists.txt: GC_VARIANT names the instruction set, and the
// compiler's flags give it.

#include "variant.h"

#include "q4_0.h"
#include "q8_0.h"

#define GC_TEXT_OF(name) #name
#define GC_TEXT(name) GC_TEXT_OF(name)

namespace gc {

namespace kernels {

extern const Variant GC_VARIANT;
const Variant GC_VARIANT = {
    GC_TEXT(GC_VARIANT),
    {
        {"q4_0 " GC_TEXT(GC_VARIANT), GGML_TYPE_Q4_0, kGroupRows, Q4_0::kColumns, Q4_0::group_size,
         Q4_0::pack, Q4_0::activation_size, quantize_activations32, multiply<Q4_0>},
        {"q8_0 " GC_TEXT(GC_VARIANT), GGML_TYPE_Q8_0, kGroupRows, Q8_0::kColumns, Q8_0::group_size,
         Q8_0::pack, Q8_0::activation_size, quantize_activations32_fours, multiply<Q8_0>},
    },
};

}  // namespace kernels

}  // namespace gc
