#include "table.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "error.h"

namespace gc {

namespace {

// How many rows ahead memory is asked for: rows far apart are what costs.
constexpr int32_t kAhead = 16;
constexpr size_t kCacheLine = 64;

}  // namespace

Table::Table(ggml_type type, const void *data, int32_t n_rows, int32_t width,
             std::shared_ptr<const void> owner)
    : traits_(ggml_get_type_traits(type)),
      traits_cpu_(ggml_get_type_traits_cpu(type)),
      data_(static_cast<const uint8_t *>(data)),
      n_rows_(n_rows),
      width_(width),
      row_bytes_(ggml_row_size(type, width)),
      owner_(std::move(owner)) {
    const bool decodes = type == GGML_TYPE_F32 || traits_->to_float != nullptr;
    if (!decodes || traits_cpu_->vec_dot == nullptr ||
        ggml_get_type_traits_cpu(traits_cpu_->vec_dot_type)->from_float == nullptr) {
        throw Error(GC_LOAD_FAILED, std::string("rows of type ") + ggml_type_name(type) +
                                        " cannot be multiplied on this processor");
    }
}

void Table::decode(int32_t row, float *out) const {
    if (traits_->to_float == nullptr) {
        std::memcpy(out, at(row), row_bytes_);
    } else {
        traits_->to_float(at(row), out, width_);
    }
}

void Table::encode(const float *vector, Encoded &out) const {
    const ggml_type type = traits_cpu_->vec_dot_type;
    out.resize(ggml_row_size(type, width_));
    ggml_get_type_traits_cpu(type)->from_float(vector, out.data(), width_);
}

float Table::product(const Encoded &vector, int32_t row) const {
    float product;
    traits_cpu_->vec_dot(width_, &product, 0, at(row), 0, vector.data(), 0, 1);
    return product;
}

void Table::prefetch(int32_t row) const {
    for (size_t byte = 0; byte < row_bytes_; byte += kCacheLine) {
        __builtin_prefetch(at(row) + byte);
    }
}

void Table::multiply(const Encoded &vector, const int32_t *rows, int32_t n, float *out) const {
    for (int32_t i = 0; i < std::min(n, kAhead); ++i) {
        prefetch(rows[i]);
    }
    for (int32_t i = 0; i < n; ++i) {
        if (i + kAhead < n) {
            prefetch(rows[i + kAhead]);
        }
        out[i] = product(vector, rows[i]);
    }
}

void Table::multiply(const Encoded &vector, float *out) const {
    for (int32_t row = 0; row < n_rows_; ++row) {
        out[row] = product(vector, row);
    }
}

}  // namespace gc
