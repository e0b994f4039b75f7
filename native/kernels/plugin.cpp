#include "plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "buffer_type.h"
#include "ggml-cpu.h"
#include "self_check.h"

namespace gc {

namespace {

template <typename Function>
Function *find_function(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

const Kernel *kernel_for(ggml_type type, const char *instructions) {
    return instructions == nullptr ? find_kernel(type) : find_kernel(type, instructions);
}

bool has_amx(const ExtraBufferTypes &types) {
    return std::any_of(types.begin(), types.end(), [](ggml_backend_buffer_type_t type) {
        return std::strcmp(ggml_backend_buft_name(type), "AMX") == 0;
    });
}

// The types in the order of the device, which copies ggml's list when it is first asked.
bool device_knows(ggml_backend_buffer_type_t type) {
    const auto get =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
    if (get == nullptr) {
        return false;
    }
    ggml_backend_buffer_type_t *known = get(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0));
    while (*known != nullptr && *known != type) {
        ++known;
    }
    return *known == type;
}

// Their type in ggml's list is left without kernels and takes nothing.
Plugin withdrawn(const char *why) {
    set_kernels({});
    return {false, why};
}

// Leaves those that compute what ggml computes. Throws std::bad_alloc.
Plugin tried(KernelTable kernels, ggml_backend_buffer_type_t own) {
    std::string names, wrong;
    for (const Kernel *&kernel : kernels.of) {
        if (kernel == nullptr) {
            continue;
        }
        const bool agrees = agrees_with_ggml(*kernel, own);
        std::string &list = agrees ? names : wrong;
        list += (list.empty() ? "" : ", ") + std::string(kernel->name);
        kernel = agrees ? kernel : nullptr;
    }
    if (names.empty()) {
        return withdrawn("their products are not ggml's on this processor");
    }
    if (!device_knows(own)) {
        return withdrawn("llama.cpp had loaded a model before");
    }
    set_kernels(kernels);
    return {true, names + (wrong.empty() ? "" : "; not ggml's products, so off: " + wrong)};
}

Plugin install(const char *instructions) {
    if (std::strcmp(GC_BUILT_FOR, kInternalsOf) != 0) {
        return {false, std::string("they are made for llama-cpp-python ") + kInternalsOf +
                           ", and this is " GC_BUILT_FOR};
    }
    const auto ggml_version = find_function<const char *()>("ggml_version");
    const std::string found = ggml_version == nullptr ? "another" : ggml_version();
    if (found != kGgmlVersion) {
        return {false,
                std::string("they are made for ggml ") + kGgmlVersion + ", and this is " + found};
    }
    const auto get_types = find_function<GetExtraBufferTypes>(kGetExtraBufferTypes);
    const auto barrier = find_function<Barrier>(kBarrier);
    if (get_types == nullptr || barrier == nullptr) {
        return {false, "this llama.cpp has no place for them"};
    }
    ExtraBufferTypes &types = get_types();
    if (has_amx(types)) {
        return {false, "llama.cpp multiplies with AMX here, and they were never compared with it"};
    }
    KernelTable kernels;
    bool any = false;
    for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
        kernels.of[type] = kernel_for(static_cast<ggml_type>(type), instructions);
        any = any || kernels.of[type] != nullptr;
    }
    if (!any) {
        return {false, "there are none for this processor"};
    }

    ggml_backend_buffer_type_t own = packed_buffer_type(barrier);
    set_kernels(kernels);
    // First come, first served. It stays: ggml goes through the list without a lock.
    types.insert(types.begin(), own);
    try {
        return tried(kernels, own);
    } catch (const std::bad_alloc &) {
        return withdrawn("there is not enough memory to try them");
    }
}

std::atomic<const Plugin *> plugged{nullptr};

}  // namespace

const Plugin &plug_in(const char *instructions) {
    static const Plugin made = install(instructions);
    plugged = &made;
    return made;
}

const Plugin &plugin() {
    static const Plugin none{false, "they were not wanted when llama.cpp was loaded"};
    const Plugin *made = plugged;
    return made == nullptr ? none : *made;
}

}  // namespace gc
