#include "product.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

namespace gc {

namespace {

constexpr size_t kLine = 64;             // bytes of a cache line
constexpr int64_t kChunksPerThread = 4;  // more would part the weights' streams for nothing
constexpr int64_t kRows = 256;           // rows of activations that one call of a kernel gets

// What a thread takes next; a cache line of its own.
struct alignas(kLine) Counter {
    std::atomic<int64_t> next;
};

size_t padded(size_t size) { return (size + kLine - 1) / kLine * kLine; }

// Work space, given out part by part.
class Space {
public:
    explicit Space(void *begin) : at_(padded(reinterpret_cast<uintptr_t>(begin))) {}

    template <typename T>
    T *take(size_t count) {
        auto *taken = reinterpret_cast<T *>(at_);
        at_ += padded(count * sizeof(T));
        return taken;
    }

private:
    uintptr_t at_;
};

// The row of a tensor of floats that has this number among all its rows.
float *row_of(const ggml_tensor &tensor, int64_t row) {
    const int64_t i1 = row % tensor.ne[1], i2 = row / tensor.ne[1] % tensor.ne[2];
    const int64_t i3 = row / tensor.ne[1] / tensor.ne[2];
    return reinterpret_cast<float *>(static_cast<char *>(tensor.data) + i1 * tensor.nb[1] +
                                     i2 * tensor.nb[2] + i3 * tensor.nb[3]);
}

int64_t groups_of(const Kernel &kernel, const ggml_tensor &weights) {
    return weights.ne[1] / kernel.group_rows;
}

// Multiplies groups [begin, end) of a matrix with n rows of activations. row(i) is where the
// products of the i-th with all the matrix's rows go.
template <typename Row>
void multiply_groups(const Kernel &kernel, const char *matrix, int64_t k, int64_t begin,
                     int64_t end, const char *activations, int64_t n, Row row) {
    const char *groups = matrix + static_cast<size_t>(begin) * kernel.group_size(k);
    float *out[kRows];
    for (int64_t first = 0; first < n; first += kRows) {
        const int64_t count = std::min(n - first, kRows);
        for (int64_t i = 0; i < count; ++i) {
            out[i] = row(first + i) + begin * kernel.group_rows;
        }
        kernel.multiply(groups, k, end - begin,
                        activations + static_cast<size_t>(first) * kernel.activation_size(k), count,
                        out);
    }
}

// Calls part(i) for every i below n_parts, in whichever thread is free. The counter must have
// started at the number of threads.
template <typename Part>
void share(const ggml_compute_params &params, Counter &counter, int64_t n_parts, Part part) {
    for (int64_t i = params.ith; i < n_parts;
         i = counter.next.fetch_add(1, std::memory_order_relaxed)) {
        part(i);
    }
}

void multiply_matrix(const ggml_compute_params &params, const ggml_tensor &op, const Kernel &kernel,
                     Barrier *barrier) {
    const ggml_tensor &weights = *op.src[0], &input = *op.src[1];
    const int64_t k = weights.ne[0], n = ggml_nrows(&input), n_groups = groups_of(kernel, weights);
    const size_t row_size = kernel.activation_size(k);
    Space space(params.wdata);
    auto *counter = space.take<Counter>(1);
    char *activations = space.take<char>(static_cast<size_t>(n) * row_size);

    if (params.ith == 0) {
        new (counter) Counter{{params.nth}};
    }
    for (int64_t i = params.ith; i < n; i += params.nth) {
        kernel.quantize(row_of(input, i), k, activations + static_cast<size_t>(i) * row_size);
    }
    barrier(params.threadpool);

    const int64_t n_chunks =
        std::min(n_groups, params.nth == 1 ? 1 : params.nth * kChunksPerThread);
    share(params, *counter, n_chunks, [&](int64_t chunk) {
        multiply_groups(kernel, static_cast<const char *>(weights.data), k,
                        n_groups * chunk / n_chunks, n_groups * (chunk + 1) / n_chunks, activations,
                        n, [&](int64_t i) { return row_of(op, i); });
    });
}

// Which rows each expert multiplies. A pair is a token and one of the experts it chose, numbered
// token by token; the pairs of an expert have neighbouring slots.
struct Routing {
    Counter *counter;
    int32_t *begin;   // first slot of each expert, and the end of the last
    int32_t *active;  // experts that have pairs
    int32_t *n_active;
    int32_t *slot;  // of each pair
    int32_t *pair;  // in each slot

    Routing(Space &space, int64_t n_experts, int64_t n_pairs)
        : counter(space.take<Counter>(1)),
          begin(space.take<int32_t>(static_cast<size_t>(n_experts) + 1)),
          active(space.take<int32_t>(static_cast<size_t>(n_experts))),
          n_active(space.take<int32_t>(1)),
          slot(space.take<int32_t>(static_cast<size_t>(n_pairs))),
          pair(space.take<int32_t>(static_cast<size_t>(n_pairs))) {}
};

int32_t expert_of(const ggml_tensor &chosen, int64_t pair) {
    const int64_t token = pair / chosen.ne[0], choice = pair % chosen.ne[0];
    return *reinterpret_cast<const int32_t *>(static_cast<const char *>(chosen.data) +
                                              token * chosen.nb[1] + choice * chosen.nb[0]);
}

void route(const ggml_tensor &chosen, int64_t n_experts, const Routing &routing) {
    const int64_t n_pairs = chosen.ne[0] * chosen.ne[1];
    std::fill_n(routing.begin, n_experts + 1, 0);
    for (int64_t pair = 0; pair < n_pairs; ++pair) {
        const int32_t expert = expert_of(chosen, pair);
        GGML_ASSERT(expert >= 0 && expert < n_experts);
        ++routing.begin[expert + 1];
    }
    *routing.n_active = 0;
    for (int32_t expert = 0; expert < n_experts; ++expert) {
        if (routing.begin[expert + 1] > 0) {
            routing.active[(*routing.n_active)++] = expert;
        }
        routing.begin[expert + 1] += routing.begin[expert];
    }
    // Counts begin up to the end of each expert's slots, and sets it back.
    for (int64_t pair = 0; pair < n_pairs; ++pair) {
        const int32_t slot = routing.begin[expert_of(chosen, pair)]++;
        routing.slot[pair] = slot;
        routing.pair[slot] = static_cast<int32_t>(pair);
    }
    std::copy_backward(routing.begin, routing.begin + n_experts - 1, routing.begin + n_experts);
    routing.begin[0] = 0;
}

void multiply_experts(const ggml_compute_params &params, const ggml_tensor &op,
                      const Kernel &kernel, Barrier *barrier) {
    const ggml_tensor &weights = *op.src[0], &input = *op.src[1], &chosen = *op.src[2];
    const int64_t k = weights.ne[0], n_groups = groups_of(kernel, weights);
    const int64_t n_choices = chosen.ne[0], n_pairs = n_choices * chosen.ne[1];
    const size_t row_size = kernel.activation_size(k);
    Space space(params.wdata);
    const Routing routing(space, weights.ne[2], n_pairs);
    char *activations = space.take<char>(static_cast<size_t>(n_pairs) * row_size);

    if (params.ith == 0) {
        new (routing.counter) Counter{{params.nth}};
        route(chosen, weights.ne[2], routing);
    }
    barrier(params.threadpool);

    // A token has one row of activations for all its choices, or one for each.
    const int64_t n_inputs = input.ne[1];
    for (int64_t row = params.ith; row < n_inputs * input.ne[2]; row += params.nth) {
        const int32_t *slots = routing.slot + row / n_inputs * n_choices;
        const int64_t first = row % n_inputs;
        char *quantized = activations + static_cast<size_t>(slots[first]) * row_size;
        kernel.quantize(row_of(input, row), k, quantized);
        for (int64_t choice = first + n_inputs; choice < n_choices; choice += n_inputs) {
            std::memcpy(activations + static_cast<size_t>(slots[choice]) * row_size, quantized,
                        row_size);
        }
    }
    barrier(params.threadpool);

    const int64_t n_active = *routing.n_active;
    const int64_t chunks_each = std::clamp<int64_t>(
        4 * kChunksPerThread * params.nth / std::max<int64_t>(n_active, 1), 1, n_groups);
    share(params, *routing.counter, n_active * chunks_each, [&](int64_t part) {
        const int32_t expert = routing.active[part / chunks_each];
        const int64_t chunk = part % chunks_each;
        const int32_t begin = routing.begin[expert], end = routing.begin[expert + 1];
        const char *matrix = static_cast<const char *>(weights.data) +
                             static_cast<size_t>(expert) * n_groups * kernel.group_size(k);
        multiply_groups(kernel, matrix, k, n_groups * chunk / chunks_each,
                        n_groups * (chunk + 1) / chunks_each,
                        activations + static_cast<size_t>(begin) * row_size, end - begin,
                        [&](int64_t i) { return row_of(op, routing.pair[begin + i]); });
    });
}

bool is_readable(const ggml_tensor &input) {
    return input.type == GGML_TYPE_F32 && input.nb[0] == sizeof(float) &&
           (input.buffer == nullptr || ggml_backend_buffer_is_host(input.buffer));
}

}  // namespace

size_t packed_size(const Kernel &kernel, const ggml_tensor &weights) {
    return static_cast<size_t>(groups_of(kernel, weights) * weights.ne[2]) *
           kernel.group_size(weights.ne[0]);
}

bool can_multiply(const Kernel &kernel, const ggml_tensor &op) {
    const bool experts = op.op == GGML_OP_MUL_MAT_ID;
    if (op.op != GGML_OP_MUL_MAT && !experts) {
        return false;
    }
    const ggml_tensor &weights = *op.src[0], &input = *op.src[1];
    return weights.type == kernel.type && weights.view_src == nullptr &&
           ggml_is_contiguous(&weights) && weights.ne[0] % kernel.columns_multiple == 0 &&
           weights.ne[1] % kernel.group_rows == 0 && (experts || weights.ne[2] == 1) &&
           weights.ne[3] == 1 && is_readable(input) && op.type == GGML_TYPE_F32 &&
           op.nb[0] == sizeof(float) &&
           (!experts || (op.src[2]->type == GGML_TYPE_I32 && input.ne[3] == 1));
}

size_t work_size(const ggml_tensor &op, const Kernel &kernel) {
    const size_t row_size = kernel.activation_size(op.src[0]->ne[0]);
    if (op.op == GGML_OP_MUL_MAT) {
        return kLine + sizeof(Counter) + static_cast<size_t>(ggml_nrows(op.src[1])) * row_size;
    }
    const auto n_experts = static_cast<size_t>(op.src[0]->ne[2]);
    const auto n_pairs = static_cast<size_t>(ggml_nelements(op.src[2]));
    const size_t experts = padded((n_experts + 1) * sizeof(int32_t));
    const size_t pairs = padded(n_pairs * sizeof(int32_t));
    return kLine + sizeof(Counter) + 2 * experts + kLine + 2 * pairs + n_pairs * row_size;
}

void multiply(const ggml_compute_params &params, const ggml_tensor &op, const Kernel &kernel,
              Barrier *barrier) {
    if (op.op == GGML_OP_MUL_MAT) {
        multiply_matrix(params, op, kernel, barrier);
    } else {
        multiply_experts(params, op, kernel, barrier);
    }
}

}  // namespace gc
