// The operations that kernels are written in, on the instruction set that this file is compiled
// for.
//
// A vector holds kRows lanes of 32 bits, one for each row of a group. Bytes are four columns of
// each row. Like everything that is compiled once per instruction set, this is in an anonymous
// namespace and calls no inline function of the standard library.

#pragma once

#include <cstdint>

#if defined(GC_ISA_AVX2)
#include "isa_avx2.h"
#else
#include "isa_portable.h"
#endif
