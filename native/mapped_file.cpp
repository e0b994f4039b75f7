#include "mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "error.h"

namespace gc {

namespace {

// An open file, closed at the end.
struct Opened {
    explicit Opened(const std::string &path)
        : descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~Opened() {
        if (descriptor >= 0) {
            close(descriptor);
        }
    }
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;

    const int descriptor;
};

}  // namespace

MappedFile::MappedFile(const std::string &path) : MappedFile(path, Opened(path).descriptor) {}

MappedFile::MappedFile(std::string path, int descriptor) : path_(std::move(path)) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || status.st_size <= 0) {
        throw Error(GC_LOAD_FAILED, "'" + path_ + "' cannot be read: get it again");
    }
    size_ = static_cast<size_t>(status.st_size);
    void *bytes = mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED) {
        throw errno == ENOMEM
            ? Error(GC_OUT_OF_MEMORY, "there is not enough memory to map '" + path_ + "'")
            : Error(GC_LOAD_FAILED, "'" + path_ + "' cannot be mapped: get it again");
    }
    bytes_ = {bytes, [size = size_](void *mapped) { munmap(mapped, size); }};
}

}  // namespace gc
