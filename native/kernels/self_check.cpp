#include "self_check.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <vector>

#include "../random.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"

namespace gc {

namespace {

constexpr int64_t kColumns = 512;  // all types' blocks fill them
constexpr int64_t kGroups = 3;
constexpr int64_t kRows = 6;  // of activations: all of a kernel's tiles, and one and a half
constexpr int64_t kExperts = 2;
constexpr int32_t kChosen[] = {0, 1, 1, 0, 0, 1};  // two experts for each of three rows
constexpr int64_t kTensors = 32;
constexpr double kTolerance = 1e-5;
constexpr size_t kGraphBytes = size_t{64} << 10;

struct Free {
    void operator()(ggml_context *context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer *buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_backend *backend) const { ggml_backend_free(backend); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

std::vector<float> known_numbers(int64_t n, uint64_t seed) {
    Random random(seed);
    std::vector<float> numbers(static_cast<size_t>(n));
    for (float &number : numbers) {
        number = static_cast<float>(random.uniform() - 0.5);
    }
    return numbers;
}

// Tensors that lie in one buffer. Throws std::bad_alloc.
class Tensors {
public:
    explicit Tensors(size_t graph_bytes = 0)
        : context_(ggml_init({kTensors * ggml_tensor_overhead() + graph_bytes, nullptr, true})) {
        if (context_ == nullptr) {
            throw std::bad_alloc();
        }
    }

    ggml_context *get() const { return context_.get(); }
    void allocate(ggml_backend_buffer_type_t type) {
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), type));
        if (buffer_ == nullptr) {
            throw std::bad_alloc();
        }
    }

private:
    Owned<ggml_context> context_;
    Owned<ggml_backend_buffer> buffer_;
};

// A matrix and as many as there are experts, in one buffer type.
struct Weights {
    Weights(ggml_context *context, const Kernel &kernel)
        : matrix(ggml_new_tensor_2d(context, kernel.type, kColumns, kGroups * kernel.group_rows)),
          experts(ggml_new_tensor_3d(context, kernel.type, kColumns, kGroups * kernel.group_rows,
                                     kExperts)) {}

    ggml_tensor *matrix, *experts;
};

// Its products with one row, two and so on, and those of experts with rows that choose them.
std::vector<ggml_tensor *> products_of(const Weights &weights, ggml_context *context,
                                       ggml_tensor *rows, ggml_tensor *chosen) {
    std::vector<ggml_tensor *> products;
    for (int64_t m = 1; m <= kRows; ++m) {
        ggml_tensor *some = ggml_view_2d(context, rows, kColumns, m, rows->nb[1], 0);
        products.push_back(ggml_mul_mat(context, weights.matrix, some));
    }
    ggml_tensor *each = ggml_reshape_3d(context, rows, kColumns, kExperts, kRows / kExperts);
    products.push_back(ggml_mul_mat_id(context, weights.experts, each, chosen));
    return products;
}

std::vector<float> values_of(const ggml_tensor *product) {
    std::vector<float> values(static_cast<size_t>(ggml_nelements(product)));
    ggml_backend_tensor_get(product, values.data(), 0, ggml_nbytes(product));
    return values;
}

double distance(const std::vector<float> &a, const std::vector<float> &b) {
    double difference = 0.0, size = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return std::sqrt(difference / size);
}

}  // namespace

bool agrees_with_ggml(const Kernel &kernel, ggml_backend_buffer_type_t packed) {
    const int64_t n_rows = kExperts * kGroups * kernel.group_rows;
    std::vector<uint8_t> bytes(static_cast<size_t>(n_rows) * ggml_row_size(kernel.type, kColumns));
    ggml_quantize_chunk(kernel.type, known_numbers(n_rows * kColumns, 1).data(), bytes.data(), 0,
                        n_rows, kColumns, nullptr);
    const std::vector<float> input = known_numbers(kRows * kColumns, 2);

    Tensors ours, ggmls, rest(kGraphBytes + ggml_graph_overhead());
    const Weights weights[] = {{ours.get(), kernel}, {ggmls.get(), kernel}};
    ggml_tensor *const rows = ggml_new_tensor_2d(rest.get(), GGML_TYPE_F32, kColumns, kRows);
    ggml_tensor *const chosen =
        ggml_new_tensor_2d(rest.get(), GGML_TYPE_I32, kExperts, kRows / kExperts);
    ggml_cgraph *const graph = ggml_new_graph(rest.get());
    std::vector<ggml_tensor *> products[2];
    for (int i = 0; i < 2; ++i) {
        products[i] = products_of(weights[i], rest.get(), rows, chosen);
        for (ggml_tensor *product : products[i]) {
            ggml_build_forward_expand(graph, product);
        }
    }
    const Owned<ggml_backend> backend(ggml_backend_cpu_init());
    if (backend == nullptr) {
        throw std::bad_alloc();
    }
    ours.allocate(packed);
    ggmls.allocate(ggml_backend_cpu_buffer_type());
    rest.allocate(ggml_backend_cpu_buffer_type());
    // Other threads would stay, and a process that forks now would wait for them.
    ggml_backend_cpu_set_n_threads(backend.get(), 1);
    for (const Weights &side : weights) {
        for (ggml_tensor *tensor : {side.matrix, side.experts}) {
            ggml_backend_tensor_set(tensor, bytes.data(), 0, ggml_nbytes(tensor));
        }
    }
    ggml_backend_tensor_set(rows, input.data(), 0, ggml_nbytes(rows));
    ggml_backend_tensor_set(chosen, kChosen, 0, ggml_nbytes(chosen));
    const ggml_status status = ggml_backend_graph_compute(backend.get(), graph);
    if (status == GGML_STATUS_ALLOC_FAILED) {
        throw std::bad_alloc();
    }
    return status == GGML_STATUS_SUCCESS &&
           std::equal(products[0].begin(), products[0].end(), products[1].begin(),
                      [](const ggml_tensor *own, const ggml_tensor *expected) {
                          return distance(values_of(own), values_of(expected)) <= kTolerance;
                      });
}

}  // namespace gc
