// Rows of numbers in any of ggml's types, read where they lie.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ggml-cpu.h"
#include "ggml.h"

namespace gc {

class Table {
public:
    // A vector in the type that a table's rows are multiplied with.
    using Encoded = std::vector<uint8_t>;

    // n_rows rows of width numbers each, one after the other at data, which lives as long as owner.
    // Throws Error(GC_LOAD_FAILED) on a type whose rows ggml cannot multiply.
    Table(ggml_type type, const void *data, int32_t n_rows, int32_t width,
          std::shared_ptr<const void> owner);

    int32_t n_rows() const { return n_rows_; }
    int32_t width() const { return width_; }

    void decode(int32_t row, float *out) const;

    // The vectors that rows are multiplied with are encoded first, once for all rows.
    void encode(const float *vector, Encoded &out) const;
    // The products with n rows. A dot product's error is that of the two roundings to blocks.
    void multiply(const Encoded &vector, const int32_t *rows, int32_t n, float *out) const;
    // The products with every row.
    void multiply(const Encoded &vector, float *out) const;

private:
    const uint8_t *at(int32_t row) const { return data_ + static_cast<size_t>(row) * row_bytes_; }
    float product(const Encoded &vector, int32_t row) const;
    void prefetch(int32_t row) const;

    const ggml_type_traits *traits_;
    const ggml_type_traits_cpu *traits_cpu_;
    const uint8_t *data_;
    int32_t n_rows_;
    int32_t width_;
    size_t row_bytes_;
    std::shared_ptr<const void> owner_;
};

}  // namespace gc
