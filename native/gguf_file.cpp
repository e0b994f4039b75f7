#include "gguf_file.h"

#include <utility>

#include "error.h"

namespace gc {

GgufFile::GgufFile(MappedFile file)
    : file_(std::move(file)),
      context_(
          gguf_init_from_buffer(file_.data(), file_.size(), {/*no_alloc=*/true, /*ctx=*/nullptr})) {
    if (context_ == nullptr) {
        fail("cannot be read");
    }
}

void GgufFile::fail(const std::string &problem) const {
    throw Error(GC_LOAD_FAILED, "'" + file_.path() + "' " + problem + ": get it again");
}

Table GgufFile::table(const char *name) const {
    const int64_t index = gguf_find_tensor(context_.get(), name);
    if (index < 0) {
        fail(std::string("lacks the tensor '") + name + "'");
    }
    const int64_t *shape = gguf_get_tensor_ne(context_.get(), index);
    const size_t start =
        gguf_get_data_offset(context_.get()) + gguf_get_tensor_offset(context_.get(), index);
    const size_t n_bytes = gguf_get_tensor_size(context_.get(), index);
    if (shape[0] > INT32_MAX || shape[1] > INT32_MAX || shape[2] != 1 || shape[3] != 1 ||
        start > file_.size() || n_bytes > file_.size() - start) {
        fail(std::string("has a tensor '") + name + "' of an impossible size");
    }
    return Table(gguf_get_tensor_type(context_.get(), index), file_.data() + start,
                 static_cast<int32_t>(shape[1]), static_cast<int32_t>(shape[0]), file_.bytes());
}

bool GgufFile::has(const char *key) const { return gguf_find_key(context_.get(), key) >= 0; }

uint32_t GgufFile::number(const char *key) const {
    const int64_t index = gguf_find_key(context_.get(), key);
    if (index < 0 || gguf_get_kv_type(context_.get(), index) != GGUF_TYPE_UINT32) {
        fail(std::string("lacks the number ") + key);
    }
    return gguf_get_val_u32(context_.get(), index);
}

template <typename T>
std::vector<T> GgufFile::array(const char *key, gguf_type type) const {
    const int64_t index = gguf_find_key(context_.get(), key);
    if (index < 0 || gguf_get_kv_type(context_.get(), index) != GGUF_TYPE_ARRAY ||
        gguf_get_arr_type(context_.get(), index) != type) {
        fail(std::string("lacks the array ") + key);
    }
    const auto *items = static_cast<const T *>(gguf_get_arr_data(context_.get(), index));
    return {items, items + gguf_get_arr_n(context_.get(), index)};
}

std::vector<float> GgufFile::floats(const char *key) const {
    return array<float>(key, GGUF_TYPE_FLOAT32);
}

std::vector<int32_t> GgufFile::integers(const char *key) const {
    return array<int32_t>(key, GGUF_TYPE_INT32);
}

}  // namespace gc
