// Holds the matrix kernels of every instruction set that this processor runs against ggml's and
// against the portable ones, without Python: tools/emulate_kernels.sh runs it in an emulator.
//
//     kernels_run [INSTRUCTIONS ...]
//
// Prints what was chosen for this processor, and a line for each type and instruction set; ends
// with 1 if any product is wrong.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gemmachat.h"
#include "gemmachat_pure.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

// A type of weights: where its blocks hold half-precision floats, and whether ggml adds up the same
// numbers in the same order, always or for a single row of activations.
struct Type {
    ggml_type type;
    std::vector<size_t> halves;
    bool equal, equal_alone;
};
const Type kTypes[] = {
    {GGML_TYPE_Q4_0, {0}, true, true},      {GGML_TYPE_IQ4_NL, {0}, true, true},
    {GGML_TYPE_Q8_0, {0}, true, true},      {GGML_TYPE_Q4_K, {0, 2}, false, true},
    {GGML_TYPE_Q5_K, {0, 2}, false, false}, {GGML_TYPE_Q6_K, {208}, false, false},
};
constexpr int64_t kWidths[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33};

std::mt19937_64 generator(1);

float normal() { return std::normal_distribution<float>()(generator); }

// A matrix as files hold it, and rows of activations.
struct Case {
    int64_t k, n, m;
    Bytes rows;
    Floats x;
};

Case random_case(const Type &type, int64_t k, int64_t n, int64_t m) {
    const size_t size = ggml_type_size(type.type);
    Case made{k, n, m, Bytes(ggml_row_size(type.type, k) * static_cast<size_t>(n)),
              Floats(static_cast<size_t>(k * m))};
    for (uint8_t &byte : made.rows) {
        byte = static_cast<uint8_t>(generator());
    }
    for (size_t block = 0; block < made.rows.size(); block += size) {
        const ggml_fp16_t scale = ggml_fp32_to_fp16(0.01f * normal());
        for (const size_t at : type.halves) {
            std::memcpy(&made.rows[block + at], &scale, sizeof(scale));
        }
    }
    for (float &one : made.x) {
        one = normal() * std::exp(2 * normal());
    }
    return made;
}

// Gives the blocks of a row this scale, and their other bytes this value unless it is -1.
void set_row(Case &of, const Type &type, int64_t row, float scale, int byte = -1) {
    const size_t size = ggml_type_size(type.type), row_size = ggml_row_size(type.type, of.k);
    const ggml_fp16_t half = ggml_fp32_to_fp16(scale);
    for (size_t block = 0; block < row_size; block += size) {
        uint8_t *at = &of.rows[static_cast<size_t>(row) * row_size + block];
        if (byte >= 0) {
            Bytes kept(at, at + size);
            std::memset(at, byte, size);
            for (const size_t place : type.halves) {
                std::memcpy(at + place, &kept[place], sizeof(half));
            }
        } else {
            for (const size_t place : type.halves) {
                std::memcpy(at + place, &half, sizeof(half));
            }
        }
    }
}

// Zeros, extremes and denormals.
Case extremes(const Type &type) {
    Case made = random_case(type, 512, 80, 12);
    const float scales[] = {0.0f, -0.0f, 0x1p-24f, -0x1p-24f, 0x1p-14f, 65504.0f, -65504.0f};
    for (int i = 0; i < 7; ++i) {
        for (int r = 0; r < 8; ++r) {
            set_row(made, type, i * 8 + r, scales[i]);
        }
    }
    const int bytes[] = {0x00, 0xff, 0x80, 0x7f};
    for (int i = 0; i < 16; ++i) {
        set_row(made, type, 56 + i, 0.0f, bytes[i / 4]);
    }
    const float values[] = {0.0f, -0.0f, 0x1p-149f, 0x1p-126f, 1.0f, -1.0f, 0.0f, 65504.0f};
    for (int64_t i = 0; i < 8 * made.k; ++i) {
        made.x[static_cast<size_t>(i)] =
            i / made.k == 6 ? (i % 2 == 0 ? 1.0f : -1.0f) : values[i / made.k];
    }
    return made;
}

// Scales that are no numbers.
Case no_numbers(const Type &type) {
    Case made = random_case(type, 512, 48, 5);
    set_row(made, type, 3, INFINITY);
    set_row(made, type, 17, -INFINITY);
    set_row(made, type, 40, NAN);
    return made;
}

struct Free {
    void operator()(ggml_context *context) const { ggml_free(context); }
    void operator()(ggml_backend_buffer *buffer) const { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_backend *backend) const { ggml_backend_free(backend); }
    void operator()(gc_matrix *matrix) const { gc_matrix_free(matrix); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

ggml_backend_buffer_type_t repacking() {
    const auto get =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
            ggml_backend_cpu_reg(), "ggml_backend_dev_get_extra_bufts"));
    for (auto *type = get(ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0)); *type; ++type) {
        if (std::strcmp(ggml_backend_buft_name(*type), "CPU_REPACK") == 0) {
            return *type;
        }
    }
    return ggml_backend_cpu_buffer_type();
}

// The product by ggml's CPU backend, its weights repacked where it would.
Floats by_ggml(const Type &type, const Case &of, int64_t m) {
    const Owned<ggml_context> weights(ggml_init({1 << 20, nullptr, true}));
    const Owned<ggml_context> rest(ggml_init({1 << 20, nullptr, true}));
    ggml_tensor *a = ggml_new_tensor_2d(weights.get(), type.type, of.k, of.n);
    ggml_tensor *b = ggml_new_tensor_2d(rest.get(), GGML_TYPE_F32, of.k, m);
    ggml_tensor *product = ggml_mul_mat(rest.get(), a, b);
    ggml_cgraph *graph = ggml_new_graph(rest.get());
    ggml_build_forward_expand(graph, product);
    const Owned<ggml_backend> backend(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(backend.get(), 1);
    const bool repacked =
        type.type == GGML_TYPE_Q4_0 || type.type == GGML_TYPE_Q4_K || type.type == GGML_TYPE_IQ4_NL;
    const Owned<ggml_backend_buffer> one(ggml_backend_alloc_ctx_tensors_from_buft(
        weights.get(), repacked ? repacking() : ggml_backend_cpu_buffer_type()));
    const Owned<ggml_backend_buffer> other(
        ggml_backend_alloc_ctx_tensors_from_buft(rest.get(), ggml_backend_cpu_buffer_type()));
    ggml_backend_tensor_set(a, of.rows.data(), 0, of.rows.size());
    ggml_backend_tensor_set(b, of.x.data(), 0, ggml_nbytes(b));
    ggml_backend_graph_compute(backend.get(), graph);
    Floats out(static_cast<size_t>(m * of.n));
    ggml_backend_tensor_get(product, out.data(), 0, ggml_nbytes(product));
    return out;
}

// The sums of absolute products, against which errors are measured.
Floats magnitudes(const Type &type, const Case &of) {
    const auto k = static_cast<size_t>(of.k), n = static_cast<size_t>(of.n);
    Floats values(n * k), sums;
    ggml_get_type_traits(type.type)->to_float(of.rows.data(), values.data(), of.n * of.k);
    for (int64_t i = 0; i < of.m; ++i) {
        for (size_t r = 0; r < n; ++r) {
            double sum = 0.0;
            for (size_t c = 0; c < k; ++c) {
                sum += std::fabs(double{values[r * k + c]} * of.x[static_cast<size_t>(i) * k + c]);
            }
            sums.push_back(static_cast<float>(sum));
        }
    }
    return sums;
}

bool same(float a, float b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

Floats multiply(const Owned<gc_matrix> &matrix, const Case &of, int64_t first, int64_t m) {
    const gc_matrix *one = matrix.get();
    Floats out(static_cast<size_t>(m * of.n), NAN);
    if (gc_matrix_multiply(&one, 1, &of.x[static_cast<size_t>(first * of.k)], m, 1, out.data(),
                           nullptr) != GC_OK) {
        std::printf("%s\n", gc_last_error());
    }
    return out;
}

Owned<gc_matrix> packed(const char *instructions, const Type &type, const Case &of) {
    gc_matrix *made = nullptr;
    gc_matrix_new(instructions, type.type, of.rows.data(), of.k, of.n, &made);
    return Owned<gc_matrix>(made);
}

// How many products there were; how many had not the bits of the portable ones, were wrong by
// ggml's, had not the bits of a single row's, had not the bits of ggml's; and the largest
// difference from ggml's, of the sum of absolute products.
struct Found {
    int64_t n = 0, not_portable = 0, not_ggml = 0, not_alone = 0, unequal = 0;
    double farthest = 0.0;
};

void compare(const char *instructions, const Type &type, const Case &of, Found &found) {
    const Owned<gc_matrix> portable = packed("portable", type, of);
    const Owned<gc_matrix> own = packed(instructions, type, of);
    const Floats expected = multiply(portable, of, 0, of.m), sizes = magnitudes(type, of);
    Floats alone;
    for (int64_t i = 0; i < of.m; ++i) {
        const Floats one = multiply(own, of, i, 1);
        alone.insert(alone.end(), one.begin(), one.end());
    }
    for (const int64_t width : kWidths) {
        const int64_t m = std::min(width, of.m);
        const Floats ours = multiply(own, of, of.m - m, m), theirs = by_ggml(type, of, m);
        const Floats first = multiply(own, of, 0, m);
        const auto skipped = static_cast<size_t>((of.m - m) * of.n);
        const bool equal = type.equal || (type.equal_alone && m == 1);
        for (size_t i = 0; i < ours.size(); ++i) {
            const float value = first[i];
            found.n += 1;
            found.not_portable += !same(value, expected[i]);
            found.not_alone += !same(value, alone[i]) || !same(ours[i], alone[skipped + i]);
            found.unequal += !same(value, theirs[i]);
            bool wrong =
                equal ? !same(value, theirs[i]) : std::isfinite(value) != std::isfinite(theirs[i]);
            if (std::isfinite(value) && std::isfinite(theirs[i])) {
                const double far = std::fabs(double{value} - theirs[i]);
                wrong = wrong || far > 1e-6 * sizes[i];
                found.farthest = std::max(found.farthest, sizes[i] > 0 ? far / sizes[i] : 0.0);
            }
            found.not_ggml += wrong;
        }
        if (m < width) {
            break;
        }
    }
}

bool agrees(const char *instructions, const Type &type) {
    Found found;
    const int64_t block = ggml_blck_size(type.type);
    std::vector<Case> cases;
    cases.push_back(random_case(type, 1536, 32, 33));
    for (const int64_t n_blocks : {1, 2, 3, 9}) {
        cases.push_back(random_case(type, n_blocks * block, 16, 9));
    }
    cases.push_back(extremes(type));
    cases.push_back(no_numbers(type));
    for (const Case &one : cases) {
        compare(instructions, type, one, found);
    }
    std::printf(
        "%-7s %-10s %lld products: %lld not portable's, %lld not ggml's (%lld other bits, "
        "at most %.2g off), %lld not alone\n",
        ggml_type_name(type.type), instructions, static_cast<long long>(found.n),
        static_cast<long long>(found.not_portable), static_cast<long long>(found.not_ggml),
        static_cast<long long>(found.unequal), found.farthest,
        static_cast<long long>(found.not_alone));
    std::fflush(stdout);
    return found.not_portable + found.not_ggml + found.not_alone == 0;
}

// The loops over rows of logits, which have variants too.
bool rows_are_weighed_alike() {
    constexpr int32_t kVocab = 5000;
    gc_sampling sampling{};
    sampling.temperature = sampling.top_p = sampling.typical_p = sampling.repeat_penalty = 1.0f;
    Floats logits(kVocab);
    for (float &logit : logits) {
        logit = 4 * normal();
    }
    std::vector<double> expected;
    bool good = true;
    for (const char *variant : {"portable", "avx2", "avx512"}) {
        std::vector<int32_t> ids(kVocab);
        std::vector<double> found(kVocab + 1);
        int32_t n = 0;
        if (gc_shape_row(logits.data(), kVocab, &sampling, variant, ids.data(), found.data(),
                         kVocab, &n, &found.back()) != GC_OK) {
            std::printf("rows    %-10s does not run here\n", variant);
            continue;
        }
        expected = expected.empty() ? found : expected;
        std::printf("rows    %-10s %s\n", variant, found == expected ? "equal" : "WRONG");
        good = good && found == expected;
    }
    return good;
}

}  // namespace

int main(int argc, char **argv) {
    std::vector<std::string> wanted(argv + 1, argv + argc);
    if (wanted.empty()) {
        wanted = {"portable16", "avx2", "avxvnni", "avx512vnni"};
    }
    bool good = rows_are_weighed_alike();
    ggml_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    gc_kernels_install(nullptr);
    std::printf("chosen and checked by itself: %s\n", gc_kernels_status());
    std::fflush(stdout);
    for (const std::string &name : wanted) {
        const char *instructions = name.c_str();
        for (const Type &type : kTypes) {
            if (packed(instructions, type, random_case(type, 256, 16, 1)) == nullptr) {
                std::printf("%-7s %-10s does not run here\n", ggml_type_name(type.type),
                            instructions);
                continue;
            }
            good = agrees(instructions, type) && good;
        }
    }
    std::printf("%s\n", good ? "good" : "WRONG");
    return good ? 0 : 1;
}
