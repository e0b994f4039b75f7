// Pages of mapped files that were read once and are not needed again.

#pragma once

#include <cstddef>

namespace gc {

// Takes the pages in this range out of the process's memory where they are a read-only view of a
// file: they come back from the system's cache when they are read again. Anything else is left as
// it is. Does nothing where the system does not tell what is mapped (Linux does).
void drop_mapped_pages(const void *begin, size_t size) noexcept;

}  // namespace gc
