// The operations that kernels are written in, on the instruction set that this file is compiled
// for.
//
// A vector holds kRows lanes of 32 bits, one for each row of a group. Bytes are four columns of
// each row. Like everything that is compiled once per instruction set, this is in an anonymous
// namespace and calls no inline function of the standard library.

#pragma once

#include <cstdint>

#if defined(__AVX512VNNI__)
#include "isa_avx512vnni.h"
#elif defined(__AVXVNNI__)
#include "isa_avxvnni.h"
#elif defined(__AVX2__)
#include "isa_avx2.h"
#else
#include "isa_portable.h"
#endif

namespace gc {

namespace {

#if defined(__AVX512VNNI__)
using Isa = Avx512Vnni;
#elif defined(__AVXVNNI__)
using Isa = AvxVnni;
#elif defined(__AVX2__)
using Isa = Avx2;
#elif defined(GC_LANES)
using Isa = Portable<GC_LANES>;
#else
using Isa = Portable<8>;
#endif

}  // namespace

}  // namespace gc
