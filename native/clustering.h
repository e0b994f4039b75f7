// Groups the rows of an embedding table into clusters of equal size.

#pragma once

#include <cstdint>
#include <functional>

#include "table.h"

namespace gc {

// Balanced bisection: the rows, as unit vectors, are split at the median of a direction into two
// halves, and those again, until there are count clusters; count must divide the number of rows.
// The direction is that from the mean of one half to that of the other, found by a few rounds of
// Lloyd's algorithm with halves of fixed sizes. Deterministic; takes rows x width x log2(count).
//
// centroids receives count rows: a cluster's mean direction, as long as the root mean square of its
// rows' lengths, since that is how far its products reach. ordering receives the rows of the first
// cluster, ascending, those of the second, and so on. Throws Error: GC_CANCELLED soon after stop()
// says true, GC_LOAD_FAILED where a row has no finite length.
void cluster_rows(const Table &rows, int32_t count, const std::function<bool()> &stop,
                  float *centroids, int32_t *ordering);

}  // namespace gc
