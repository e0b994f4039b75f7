// The operations that kernels are written in, on the instruction set that CMakeLists.txt names,
// whatever else the compiler's flags allow.
//
// A vector holds kLanes lanes of 32 bits, one for each of as many rows. Bytes are four columns of
// each row. Like everything that is compiled once per instruction set, this is in an anonymous
// namespace and calls no inline function of the standard library.

#pragma once

#include <cstdint>

#if defined(GC_ISA_AVX512VNNI)
#include "isa_avx512vnni.h"
#elif defined(GC_ISA_AVXVNNI)
#include "isa_avxvnni.h"
#elif defined(GC_ISA_AVX2)
#include "isa_avx2.h"
#else
#include "isa_portable.h"
#endif

namespace gc {

namespace {

#if defined(GC_ISA_AVX512VNNI)
using Isa = Avx512Vnni;
#elif defined(GC_ISA_AVXVNNI)
using Isa = AvxVnni;
#elif defined(GC_ISA_AVX2)
using Isa = Avx2;
#else
using Isa = Portable<GC_LANES>;
#endif

}  // namespace

}  // namespace gc
