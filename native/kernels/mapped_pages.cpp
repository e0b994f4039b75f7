#include "mapped_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace gc {

namespace {

struct Range {
    uintptr_t begin, end;
};

// The read-only, shared view of a file around an address; empty where there is none.
Range file_view(uintptr_t address) {
    const std::unique_ptr<FILE, int (*)(FILE *)> maps(std::fopen("/proc/self/maps", "re"),
                                                      std::fclose);
    char line[512];
    while (maps != nullptr && std::fgets(line, sizeof(line), maps.get()) != nullptr) {
        Range view;
        char access[5];
        uint64_t inode;
        if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64, &view.begin,
                        &view.end, access, &inode) == 4 &&
            view.begin <= address && address < view.end) {
            const bool is_view = access[1] == '-' && access[3] == 's' && inode != 0;
            return is_view ? view : Range{};
        }
    }
    return {};
}

}  // namespace

void drop_mapped_pages(const void *begin, size_t size) noexcept {
#if defined(__linux__)
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const Range view = file_view(address);
    const uintptr_t first = (address + page - 1) / page * page;
    const uintptr_t last = (address + size) / page * page;
    // Of private memory this would take the contents too.
    if (first < last && view.begin <= first && last <= view.end) {
        madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
    }
#else
    (void)begin;
    (void)size;
#endif
}

}  // namespace gc
