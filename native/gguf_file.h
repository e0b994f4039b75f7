// A GGUF file beside llama.cpp's own view of it: arrays of its metadata, and its tables, mapped.
//
// llama.cpp may keep a tensor rearranged for its kernels or on another device. The rows in the file
// are the same for every backend, and on a CPU the pages are those that llama.cpp has mapped.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gguf.h"
#include "mapped_file.h"
#include "table.h"

namespace gc {

class GgufFile {
public:
    // Throws Error(GC_LOAD_FAILED) where it is none.
    explicit GgufFile(MappedFile file);

    // A two-dimensional tensor; it keeps the mapping alive. Throws Error(GC_LOAD_FAILED) where
    // there is none, or part of it lies outside the file.
    Table table(const char *name) const;

    bool has(const char *key) const;
    // Values of the metadata. Throw Error(GC_LOAD_FAILED) where there are none of that type.
    uint32_t number(const char *key) const;
    std::vector<float> floats(const char *key) const;
    std::vector<int32_t> integers(const char *key) const;

    [[noreturn]] void fail(const std::string &problem) const;

private:
    struct Free {
        void operator()(gguf_context *context) const { gguf_free(context); }
    };

    template <typename T>
    std::vector<T> array(const char *key, gguf_type type) const;

    const MappedFile file_;
    std::unique_ptr<gguf_context, Free> context_;
};

}  // namespace gc
