#include "self_check.h"

#include <cmath>
#include <memory>
#include <vector>

#include "../random.h"
#include "ggml-alloc.h"
#include "ggml-cpu.h"

namespace gc {

namespace {

constexpr int64_t kColumns = 512;  // all types' blocks fill them
constexpr int64_t kGroups = 3;
constexpr int64_t kRows = 5;  // of activations
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

// Tensors that lie in one buffer.
class Tensors {
public:
    explicit Tensors(size_t graph_bytes = 0)
        : context_(ggml_init({16 * ggml_tensor_overhead() + graph_bytes, nullptr, true})) {}

    ggml_context *get() const { return context_.get(); }
    bool allocate(ggml_backend_buffer_type_t type) {
        buffer_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), type));
        return buffer_ != nullptr;
    }

private:
    Owned<ggml_context> context_;
    Owned<ggml_backend_buffer> buffer_;
};

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
    const int64_t n_rows = kGroups * kernel.group_rows;
    std::vector<uint8_t> weights(static_cast<size_t>(n_rows) *
                                 ggml_row_size(kernel.type, kColumns));
    ggml_quantize_chunk(kernel.type, known_numbers(n_rows * kColumns, 1).data(), weights.data(), 0,
                        n_rows, kColumns, nullptr);
    const std::vector<float> input = known_numbers(kRows * kColumns, 2);

    Tensors ours, ggmls, rest(kGraphBytes + ggml_graph_overhead());
    ggml_tensor *const matrices[] = {
        ggml_new_tensor_2d(ours.get(), kernel.type, kColumns, n_rows),
        ggml_new_tensor_2d(ggmls.get(), kernel.type, kColumns, n_rows)};
    ggml_tensor *const rows = ggml_new_tensor_2d(rest.get(), GGML_TYPE_F32, kColumns, kRows);
    ggml_cgraph *const graph = ggml_new_graph(rest.get());
    ggml_tensor *products[2];
    for (int i = 0; i < 2; ++i) {
        products[i] = ggml_mul_mat(rest.get(), matrices[i], rows);
        ggml_build_forward_expand(graph, products[i]);
    }
    const Owned<ggml_backend> backend(ggml_backend_cpu_init());
    if (backend == nullptr || !ours.allocate(packed) ||
        !ggmls.allocate(ggml_backend_cpu_buffer_type()) ||
        !rest.allocate(ggml_backend_cpu_buffer_type())) {
        return false;
    }
    // Other threads would stay, and a process that forks now would wait for them.
    ggml_backend_cpu_set_n_threads(backend.get(), 1);
    for (ggml_tensor *matrix : matrices) {
        ggml_backend_tensor_set(matrix, weights.data(), 0, weights.size());
    }
    ggml_backend_tensor_set(rows, input.data(), 0, input.size() * sizeof(float));
    if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) {
        return false;
    }
    std::vector<float> results[2];
    for (int i = 0; i < 2; ++i) {
        results[i].resize(static_cast<size_t>(kRows * n_rows));
        ggml_backend_tensor_get(products[i], results[i].data(), 0,
                                results[i].size() * sizeof(float));
    }
    return distance(results[0], results[1]) <= kTolerance;
}

}  // namespace gc
