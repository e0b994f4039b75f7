#include "activations.h"

#include <algorithm>

#include "blocks.h"
#include "ggml-cpu.h"

namespace gc {

namespace {

size_t whole_lines(size_t size) { return (size + 63) / 64 * 64; }

// Calls take(index, block) for each quantized block of the row. ggml's own function quantizes, so
// that every activation has the value that ggml's products see.
template <typename Block, typename Take>
void quantize_row(ggml_type type, const float *x, int64_t k, Take take) {
    constexpr int64_t kAtOnce = 8;
    const ggml_from_float_t quantize = ggml_get_type_traits_cpu(type)->from_float;
    const int64_t n_blocks = k / Block::kColumns;
    Block blocks[kAtOnce];
    for (int64_t first = 0; first < n_blocks; first += kAtOnce) {
        const int64_t count = std::min(kAtOnce, n_blocks - first);
        quantize(x + first * Block::kColumns, blocks, count * Block::kColumns);
        for (int64_t i = 0; i < count; ++i) {
            take(first + i, blocks[i]);
        }
    }
}

}  // namespace

size_t activations32_size(int64_t k) {
    return whole_lines(static_cast<size_t>(k / BlockQ8_0::kColumns) * sizeof(Activations32));
}

size_t activations32_fours_size(int64_t k) {
    return whole_lines(static_cast<size_t>(k / BlockQ8_0::kColumns) * sizeof(Activations32Fours));
}

size_t activations256_size(int64_t k) {
    return whole_lines(static_cast<size_t>(k / BlockQ8_K::kColumns) * sizeof(Activations256));
}

void quantize_activations32(const float *x, int64_t k, void *activations) {
    auto *out = static_cast<Activations32 *>(activations);
    quantize_row<BlockQ8_0>(GGML_TYPE_Q8_0, x, k, [out](int64_t index, const BlockQ8_0 &block) {
        Activations32 &taken = out[index];
        std::copy_n(block.quanta, BlockQ8_0::kColumns, taken.quanta);
        taken.scale = ggml_fp16_to_fp32(block.scale);
        taken.sum8 = 0;
        for (const int8_t quantum : block.quanta) {
            taken.sum8 += 8 * quantum;
        }
    });
}

void quantize_activations32_fours(const float *x, int64_t k, void *activations) {
    auto *out = static_cast<Activations32Fours *>(activations);
    quantize_row<BlockQ8_0>(GGML_TYPE_Q8_0, x, k, [out](int64_t index, const BlockQ8_0 &block) {
        Activations32Fours &taken = out[index];
        std::copy_n(block.quanta, BlockQ8_0::kColumns, taken.quanta);
        taken.scale = ggml_fp16_to_fp32(block.scale);
        for (int j = 0; j < 8; ++j) {
            const int8_t *four = block.quanta + j * 4;
            taken.offsets[j] = -128 * (four[0] + four[1] + four[2] + four[3]);
        }
    });
}

void quantize_activations256(const float *x, int64_t k, void *activations) {
    auto *out = static_cast<Activations256 *>(activations);
    quantize_row<BlockQ8_K>(GGML_TYPE_Q8_K, x, k, [out](int64_t index, const BlockQ8_K &block) {
        Activations256 &taken = out[index];
        std::copy_n(block.quanta, BlockQ8_K::kColumns, taken.quanta);
        taken.scale = block.scale;
        for (int j = 0; j < 16; ++j) {
            int sums[2] = {};
            for (int i = 0; i < 16; ++i) {
                sums[i / 2 % 2] += block.quanta[j * 16 + i];
            }
            taken.offsets[j][0] = static_cast<int16_t>(-32 * sums[0]);
            taken.offsets[j][1] = static_cast<int16_t>(-32 * sums[1]);
            const int before = j % 2 == 0 ? 0 : taken.sums[j / 2];
            taken.sums[j / 2] = static_cast<int16_t>(before + sums[0] + sums[1]);
        }
    });
}

}  // namespace gc
