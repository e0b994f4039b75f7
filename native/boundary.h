// What both halves of the C boundary share: no exception crosses it, and what callers pass is
// checked.

#pragma once

#include <new>

#include "error.h"
#include "gemmachat.h"
#include "shape.h"

namespace gc {

// Remembers the text for gc_last_error and returns the status.
gc_status fail(gc_status status, const char *text) noexcept;

template <typename Body>
gc_status guarded(Body body) noexcept {
    try {
        body();
        return GC_OK;
    } catch (const Error &error) {
        return fail(error.status, error.what());
    } catch (const std::bad_alloc &) {
        return fail(GC_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception &error) {
        return fail(GC_INTERNAL, error.what());
    } catch (...) {
        return fail(GC_INTERNAL, "unknown failure");
    }
}

// Throws Error(GC_BAD_ARGUMENT) unless the condition holds.
void require(bool condition, const char *text);

// Throw Error(GC_BAD_ARGUMENT) on a value out of its range.
void check(const gc_sampling &sampling);
void check(const gc_schedule_state &saved);

// The part that concerns one row of logits alone.
Sampling shaping(const gc_sampling &sampling);

}  // namespace gc
