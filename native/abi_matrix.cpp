// The part of the C boundary that multiplies by one matrix, without a model or ggml's threads.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "boundary.h"
#include "gemmachat_pure.h"
#include "kernels/kernel.h"
#include "stopwatch.h"

namespace {

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<char, Free>;

// In huge pages where the system has them, as weights should be.
Memory allocate(size_t size) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t alignment = size < kHugePage ? 64 : kHugePage;
    const size_t whole = (size + alignment - 1) / alignment * alignment;
    Memory memory(static_cast<char *>(std::aligned_alloc(alignment, whole)));
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
#if defined(__linux__)
    if (alignment == kHugePage) {
        madvise(memory.get(), whole, MADV_HUGEPAGE);
    }
#endif
    return memory;
}

constexpr int32_t kMaxThreads = 512;

// Of threads that need each other: they run once all of them are there.
enum class Start { kWaits, kRuns, kFailed };

// Threads wait here for each other, without sleeping: products take as little as 20 us.
class Barrier {
public:
    explicit Barrier(int32_t n_threads) : n_threads_(n_threads) {}

    void wait() {
        const int32_t round = round_.load();
        if (arrived_.fetch_add(1) + 1 == n_threads_) {
            arrived_.store(0);
            round_.fetch_add(1);
            return;
        }
        while (round_.load() == round) {
        }
    }

private:
    const int32_t n_threads_;
    std::atomic<int32_t> arrived_{0};
    std::atomic<int32_t> round_{0};
};

}  // namespace

struct gc_matrix {
    const gc::Kernel *kernel;
    int64_t k;
    int64_t n_groups;
    Memory groups;

    int64_t n() const { return n_groups * kernel->group_rows; }
};

namespace {

// One thread's share of a product.
void multiply(const gc_matrix &matrix, const float *x, int64_t m, int32_t thread, int32_t n_threads,
              Barrier &barrier, char *activations, float **rows, float *out) {
    const gc::Kernel &kernel = *matrix.kernel;
    const size_t size = kernel.activation_size(matrix.k);
    for (int64_t i = thread; i < m; i += n_threads) {
        kernel.quantize(x + i * matrix.k, matrix.k, activations + static_cast<size_t>(i) * size);
    }
    barrier.wait();
    const int64_t first = matrix.n_groups * thread / n_threads;
    const int64_t last = matrix.n_groups * (thread + 1) / n_threads;
    for (int64_t i = 0; i < m; ++i) {
        rows[i] = out + i * matrix.n() + first * kernel.group_rows;
    }
    const size_t offset = static_cast<size_t>(first) * kernel.group_size(matrix.k);
    kernel.multiply(matrix.groups.get() + offset, matrix.k, last - first, activations, m, rows);
    barrier.wait();
}

}  // namespace

gc_status gc_matrix_new(const char *instructions, int32_t type, const void *rows, int64_t k,
                        int64_t n, gc_matrix **matrix) {
    return gc::guarded([&] {
        gc::require(type >= 0 && type < GGML_TYPE_COUNT && rows != nullptr, "weights are needed");
        const auto kind = static_cast<ggml_type>(type);
        const gc::Kernel *kernel =
            instructions == nullptr ? gc::find_kernel(kind) : gc::find_kernel(kind, instructions);
        gc::require(kernel != nullptr, "there is no such kernel on this processor");
        gc::require(
            k > 0 && k % kernel->columns_multiple == 0 && n > 0 && n % kernel->group_rows == 0,
            "the kernel does not take a matrix of this size");
        const int64_t n_groups = n / kernel->group_rows;
        const size_t size = kernel->group_size(k);
        const size_t file_size = ggml_row_size(kind, k) * static_cast<size_t>(kernel->group_rows);
        auto made = std::make_unique<gc_matrix>(
            gc_matrix{kernel, k, n_groups, allocate(size * static_cast<size_t>(n_groups))});
        for (size_t g = 0; g < static_cast<size_t>(n_groups); ++g) {
            kernel->pack(static_cast<const char *>(rows) + g * file_size, k,
                         made->groups.get() + g * size);
        }
        *matrix = made.release();
    });
}

void gc_matrix_free(gc_matrix *matrix) { delete matrix; }

gc_status gc_matrix_multiply(const gc_matrix *const *matrices, int32_t n_matrices, const float *x,
                             int64_t m, int32_t n_threads, float *out, double *seconds) {
    return gc::guarded([&] {
        gc::require(n_matrices >= 1 && m >= 1, "a product needs all its parts");
        gc::require(n_threads >= 1 && n_threads <= kMaxThreads, "that many threads cannot run");
        size_t size = 0;
        for (int32_t i = 0; i < n_matrices; ++i) {
            gc::require(matrices[i]->k == matrices[0]->k, "all matrices need the same columns");
            size = std::max(size, matrices[i]->kernel->activation_size(matrices[i]->k));
        }
        const Memory activations = allocate(size * static_cast<size_t>(m));
        std::vector<float *> rows(static_cast<size_t>(n_threads) * static_cast<size_t>(m));
        Barrier barrier(n_threads);
        std::atomic<Start> start{Start::kWaits};
        double elapsed = 0.0;
        const auto work = [&](int32_t thread) {
            while (start == Start::kWaits) {
            }
            if (start == Start::kFailed) {
                return;
            }
            barrier.wait();
            double spent = 0.0;
            const gc::Stopwatch watch(thread == 0 ? elapsed : spent);
            float *results = out;
            for (int32_t i = 0; i < n_matrices; ++i) {
                multiply(*matrices[i], x, m, thread, n_threads, barrier, activations.get(),
                         rows.data() + thread * m, results);
                results += m * matrices[i]->n();
            }
        };
        std::vector<std::thread> others;
        const auto join = [&] {
            for (std::thread &other : others) {
                other.join();
            }
        };
        try {
            for (int32_t thread = 1; thread < n_threads; ++thread) {
                others.emplace_back(work, thread);
            }
        } catch (...) {
            start = Start::kFailed;
            join();
            throw;
        }
        start = Start::kRuns;
        work(0);
        join();
        if (seconds != nullptr) {
            *seconds = elapsed;
        }
    });
}
