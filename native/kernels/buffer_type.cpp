#include "buffer_type.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <vector>

#include "ggml-cpu.h"
#include "mapped_pages.h"
#include "product.h"

namespace gc {

namespace {

constexpr size_t kAlignment = 64;
constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
// A helper thread is started for so many bytes to pack, up to so many threads.
constexpr size_t kBytesPerThread = size_t{1} << 20;
constexpr size_t kMaxThreads = 16;

KernelTable table;
thread_local Packing *packing = nullptr;

// Calls item(i) for every i below n_items, on several threads where there are any to be had.
template <typename Item>
void in_parallel(int64_t n_items, size_t n_threads, Item item) {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
        for (int64_t i = next++; i < n_items; i = next++) {
            item(i);
        }
    };
    std::vector<std::thread> helpers;
    try {
        helpers.reserve(n_threads);
        while (helpers.size() + 1 < n_threads) {
            helpers.emplace_back(work);
        }
    } catch (const std::exception &) {
        // Fewer will do.
    }
    work();
    for (std::thread &helper : helpers) {
        helper.join();
    }
}

class Traits final : public TensorTraits {
public:
    explicit Traits(Barrier *barrier) : barrier_(barrier) {}

    bool work_size(int, const ggml_tensor *op, size_t &size) override {
        size = gc::work_size(*op, *table.of[op->src[0]->type]);
        return true;
    }

    bool compute_forward(ggml_compute_params *params, ggml_tensor *op) override {
        multiply(*params, *op, *table.of[op->src[0]->type], barrier_);
        return true;
    }

private:
    Barrier *const barrier_;
};

class Type final : public ExtraBufferType {
public:
    explicit Type(Barrier *barrier);

    bool supports_op(ggml_backend_dev_t, const ggml_tensor *op) override {
        const ggml_tensor *weights = op->src[0];
        if (!holds(weights)) {
            return false;
        }
        // A model that is being loaded asks with a buffer of no size.
        if (weights->buffer->size == 0 && (packing == nullptr || !packing->wants(*weights))) {
            return false;
        }
        const Kernel *kernel = table.of[weights->type];
        return kernel != nullptr && can_multiply(*kernel, *op);
    }

    TensorTraits *get_tensor_traits(const ggml_tensor *op) override {
        const bool multiplies = op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID;
        const bool ours = multiplies && holds(op->src[0]) && table.of[op->src[0]->type] != nullptr;
        return ours ? &traits_ : nullptr;
    }

    ggml_backend_buffer_type_t buffer_type() { return &type_; }

private:
    bool holds(const ggml_tensor *weights) const {
        return weights != nullptr && weights->buffer != nullptr && weights->buffer->buft == &type_;
    }

    Traits traits_;
    ggml_backend_buffer_type type_;
};

const char *name_of(ggml_backend_buffer_type_t) { return "GEMMACHAT"; }

size_t alignment_of(ggml_backend_buffer_type_t) { return kAlignment; }

size_t alloc_size_of(ggml_backend_buffer_type_t, const ggml_tensor *tensor) {
    const Kernel *kernel = table.of[tensor->type];
    const size_t size = ggml_nbytes(tensor);
    return kernel == nullptr ? size : std::max(size, packed_size(*kernel, *tensor));
}

// The whole tensor, or some of its groups; what has no kernel stays as it is, and ggml's.
void set_tensor(ggml_backend_buffer_t, ggml_tensor *tensor, const void *data, size_t offset,
                size_t size) {
    const Kernel *kernel = table.of[tensor->type];
    if (kernel == nullptr) {
        std::memcpy(static_cast<char *>(tensor->data) + offset, data, size);
        return;
    }
    const int64_t k = tensor->ne[0];
    const size_t from_size = kernel->group_rows * ggml_row_size(tensor->type, k);
    const size_t to_size = kernel->group_size(k);
    GGML_ASSERT(offset % from_size == 0 && size % from_size == 0);
    const auto *from = static_cast<const char *>(data);
    char *to = static_cast<char *>(tensor->data) + offset / from_size * to_size;
    const size_t n_threads = std::min({size / kBytesPerThread, kMaxThreads,
                                       static_cast<size_t>(std::thread::hardware_concurrency())});
    in_parallel(static_cast<int64_t>(size / from_size), n_threads, [&](int64_t group) {
        kernel->pack(from + group * from_size, k, to + group * to_size);
    });
    if (packing != nullptr) {
        packing->note(data, size);
    }
}

// Weights are read from end to end in every pass: fewer, larger pages are faster.
void ask_for_huge_pages(void *begin, size_t size) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + kHugePage - 1) & -kHugePage;
    const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + size) & -kHugePage;
    if (last > first) {
        madvise(reinterpret_cast<void *>(first), last - first, MADV_HUGEPAGE);
    }
#else
    (void)begin;
    (void)size;
#endif
}

// Null where there is no memory, which llama.cpp reports as such.
ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size);
    if (buffer == nullptr) {
        return nullptr;
    }
    ask_for_huge_pages(ggml_backend_buffer_get_base(buffer), size);
    buffer->buft = type;
    buffer->iface.set_tensor = set_tensor;
    // The bytes of the file are not to be had from it.
    buffer->iface.memset_tensor = nullptr;
    buffer->iface.get_tensor = nullptr;
    buffer->iface.cpy_tensor = nullptr;
    return buffer;
}

Type::Type(Barrier *barrier)
    : traits_(barrier),
      type_{{name_of, allocate, alignment_of, /*get_max_size=*/nullptr, alloc_size_of,
             /*is_host=*/nullptr},
            ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0),
            static_cast<ExtraBufferType *>(this)} {}

}  // namespace

ggml_backend_buffer_type_t packed_buffer_type(Barrier *barrier) {
    static Type *const type = new Type(barrier);  // ggml asks it up to the end of the process
    return type->buffer_type();
}

void set_kernels(const KernelTable &kernels) { table = kernels; }

Packing::Packing(const char *left_out) : left_out_(left_out) { packing = this; }

Packing::~Packing() { packing = nullptr; }

bool Packing::wants(const ggml_tensor &weights) const {
    return left_out_ == nullptr || std::strcmp(weights.name, left_out_) != 0;
}

void Packing::note(const void *source, size_t size) {
    n_bytes_ += static_cast<int64_t>(size);
    drop_mapped_pages(source, size);
}

}  // namespace gc
