// The structures of ggml's CPU backend that weights in a layout of our own touch. They live in
// headers that are not installed and may change with any release: these belong to the
// llama-cpp-python and the ggml named below, and nothing else may declare them.
//
// Functions are looked up when they are needed, so that the library loads where they do not exist.

#pragma once

#include <cstddef>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

namespace gc {

constexpr char kInternalsOf[] = "0.3.36";
constexpr char kGgmlVersion[] = "0.25.3";  // what its ggml_version() says

}  // namespace gc

// ---- ggml-backend-impl.h ------------------------------------------------------------------------

struct ggml_backend_buffer_type_i {
    const char *(*get_name)(ggml_backend_buffer_type_t type);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t type, size_t size);
    size_t (*get_alignment)(ggml_backend_buffer_type_t type);
    size_t (*get_max_size)(ggml_backend_buffer_type_t type);  // null: no limit
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t type, const ggml_tensor *tensor);
    bool (*is_host)(ggml_backend_buffer_type_t type);  // null: not in ggml's layout
};

struct ggml_backend_buffer_type {
    ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t device;
    void *context;  // of one that the CPU backend asks: a gc::ExtraBufferType
};

struct ggml_backend_buffer_i {
    void (*free_buffer)(ggml_backend_buffer_t buffer);
    void *(*get_base)(ggml_backend_buffer_t buffer);
    ggml_status (*init_tensor)(ggml_backend_buffer_t buffer, ggml_tensor *tensor);
    void (*memset_tensor)(ggml_backend_buffer_t buffer, ggml_tensor *tensor, uint8_t value,
                          size_t offset, size_t size);
    void (*set_tensor)(ggml_backend_buffer_t buffer, ggml_tensor *tensor, const void *data,
                       size_t offset, size_t size);
    void (*get_tensor)(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data,
                       size_t offset, size_t size);
    void (*set_tensor_2d)(ggml_backend_buffer_t buffer, ggml_tensor *tensor, const void *data,
                          size_t offset, size_t size, size_t n_copies, size_t stride_tensor,
                          size_t stride_data);
    void (*get_tensor_2d)(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data,
                          size_t offset, size_t size, size_t n_copies, size_t stride_tensor,
                          size_t stride_data);
    bool (*cpy_tensor)(ggml_backend_buffer_t buffer, const ggml_tensor *source,
                       ggml_tensor *destination);
    void (*clear)(ggml_backend_buffer_t buffer, uint8_t value);
    void (*reset)(ggml_backend_buffer_t buffer);
};

struct ggml_backend_buffer {
    ggml_backend_buffer_i iface;
    ggml_backend_buffer_type_t buft;
    void *context;
    size_t size;
    ggml_backend_buffer_usage usage;
};

// ---- ggml-cpu-impl.h ----------------------------------------------------------------------------

struct ggml_compute_params {
    int ith, nth;  // this thread, of how many
    size_t wsize;
    void *wdata;  // of all threads, as large as work_size said
    ggml_threadpool *threadpool;
    bool use_ref;
};

// ---- traits.h -----------------------------------------------------------------------------------

namespace gc {

// ggml::cpu::tensor_traits, in the order of its virtual functions: what a tensor's extra points to.
class TensorTraits {
public:
    virtual ~TensorTraits() = default;
    // The bytes of wdata that the operation needs; false: it is not for this object.
    virtual bool work_size(int n_threads, const ggml_tensor *op, size_t &size) = 0;
    // Runs in every thread of ggml's; false: it is not for this object.
    virtual bool compute_forward(ggml_compute_params *params, ggml_tensor *op) = 0;
};

// ggml::cpu::extra_buffer_type, likewise.
class ExtraBufferType {
public:
    virtual ~ExtraBufferType() = default;
    virtual bool supports_op(ggml_backend_dev_t device, const ggml_tensor *op) = 0;
    // Asked for every operation; null: it is not for this type.
    virtual TensorTraits *get_tensor_traits(const ggml_tensor *op) = 0;
};

// ggml_backend_cpu_get_extra_buffer_types: the types that the CPU backend asks in turn, and of
// which its device copies the list when it is first asked for it.
using ExtraBufferTypes = std::vector<ggml_backend_buffer_type_t>;
using GetExtraBufferTypes = ExtraBufferTypes &();
constexpr char kGetExtraBufferTypes[] = "_Z39ggml_backend_cpu_get_extra_buffer_typesv";

// ggml_barrier: waits for all threads of a computation.
using Barrier = void(ggml_threadpool *);
constexpr char kBarrier[] = "ggml_barrier";

}  // namespace gc
