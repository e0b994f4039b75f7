// A file's bytes, mapped: those of the file that was opened, whatever has its path since.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gc {

class MappedFile {
public:
    // Throw Error: GC_OUT_OF_MEMORY, or GC_LOAD_FAILED where the file cannot be read.
    explicit MappedFile(const std::string &path);
    // A file that is open for reading and stays the caller's to close. The path names it in errors.
    MappedFile(std::string path, int descriptor);

    const std::string &path() const { return path_; }
    const uint8_t *data() const { return static_cast<const uint8_t *>(bytes_.get()); }
    size_t size() const { return size_; }
    // What keeps the bytes mapped.
    const std::shared_ptr<const void> &bytes() const { return bytes_; }

private:
    std::string path_;
    size_t size_ = 0;
    std::shared_ptr<const void> bytes_;
};

}  // namespace gc
