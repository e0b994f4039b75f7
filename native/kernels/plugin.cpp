#include "plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

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

Plugin install(const char *instructions) {
    if (std::strcmp(GC_BUILT_FOR, kInternalsOf) != 0) {
        return {false, std::string("they are made for llama-cpp-python ") + kInternalsOf +
                           ", and this is " GC_BUILT_FOR};
    }
    const auto get_types = find_function<GetExtraBufferTypes>(kGetExtraBufferTypes);
    const auto barrier = find_function<Barrier>(kBarrier);
    if (get_types == nullptr || barrier == nullptr) {
        return {false, "this llama.cpp has no place for them"};
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
    // First come, first served.
    ExtraBufferTypes &types = get_types();
    types.insert(types.begin(), own);
    const auto withdraw = [&](const char *why) {
        types.erase(std::find(types.begin(), types.end(), own));
        return Plugin{false, why};
    };

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
    set_kernels(kernels);
    if (names.empty()) {
        return withdraw("their products are not ggml's on this processor");
    }
    if (!device_knows(own)) {
        return withdraw("llama.cpp had loaded a model before");
    }
    return {true, names + (wrong.empty() ? "" : "; not ggml's products, so off: " + wrong)};
}

}  // namespace

const Plugin &plug_in(const char *instructions) {
    static const Plugin plugin = install(instructions);
    return plugin;
}

}  // namespace gc
