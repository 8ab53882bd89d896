// The rows of a batch, as products read them. See product.cpp.
#pragma once

#include "product-blocks.h"
#include "registers.h"

namespace {

/** A batch's rows, of which TOGETHER are computed together. */
template <int TOGETHER> struct Batch {
    Buffer<int8_t> values_memory;
    Buffer<float> scales_memory, row_scales_memory;
    Buffer<int16_t> row_sums_memory;
    Buffer<int32_t> zeros_memory, row_zeros_memory, sum_pairs_memory;
    /** [row][value] */
    int8_t * values;
    /** [TOGETHER rows][unit][row] */
    float * scales;
    /** What the weights' zero points add to a unit's sum. */
    int32_t * zeros;
    /** The sums of two neighbouring units, whole numbers of 16 bits: [TOGETHER rows][pair of units][row]. */
    int32_t * sum_pairs;
    /** The scales of blocks, and the zero points of blocks with one scale: [row][block]. */
    float * row_scales;
    int32_t * row_zeros;
    /** Where a block has several scales, the sums of its units: [row][unit]. */
    int16_t * row_sums;

    template <typename Of>
    void read(const typename Of::Row * rows, int64_t stride, int64_t count, int64_t blocks) {
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        constexpr int WIDTH = Of::GROUPS * GROUP;
        const int64_t size = (count + TOGETHER - 1) / TOGETHER * TOGETHER * blocks * UNITS;
        values = values_memory.of(count * blocks * WIDTH);
        scales = scales_memory.of(size);
        zeros = zeros_memory.of(size);
        sum_pairs = sum_pairs_memory.of(Of::HAS_MINIMUM ? size / 2 : 0);
        // A vector may be read beyond the end.
        row_scales = row_scales_memory.of(count * blocks + 8);
        row_zeros = row_zeros_memory.of(count * blocks + 8);
        row_sums = row_sums_memory.of(UNITS > 1 ? count * blocks * UNITS : 0);
        for (int64_t row = 0; row < count; row++) {
            const int64_t first = row / TOGETHER * TOGETHER * blocks * UNITS + row % TOGETHER;
            const int64_t pairs = row / TOGETHER * TOGETHER * blocks * UNITS / 2 + row % TOGETHER;
            for (int64_t b = 0; b < blocks; b++) {
                const auto & block = rows[row * stride + b];
                std::memcpy(values + (row * blocks + b) * WIDTH, block.qs, WIDTH);
                row_scales[row * blocks + b] = scale_of(block);
                for (int unit = 0; unit < UNITS; unit++) {
                    const int64_t at = first + (b * UNITS + unit) * TOGETHER;
                    const int32_t sum = sum_of<Of>(block, unit);
                    scales[at] = scale_of(block);
                    zeros[at] = -Of::ZERO * sum;
                    if constexpr (UNITS == 1) row_zeros[row * blocks + b] = -Of::ZERO * sum;
                    else row_sums[(row * blocks + b) * UNITS + unit] = (int16_t) sum;
                    if constexpr (Of::HAS_MINIMUM) {
                        const int16_t whole = (int16_t) sum;
                        int32_t * pair = sum_pairs + pairs + (b * UNITS + unit) / 2 * TOGETHER;
                        std::memcpy((int16_t *) pair + unit % 2, &whole, sizeof(whole));
                    }
                }
            }
        }
    }

    static float scale_of(const block_q8_0 & block) { return single(block.d); }
    static float scale_of(const block_q8_K & block) { return block.d; }

    template <typename Of> static int32_t sum_of(const block_q8_0 & block, int) {
        const __m256i qs = _mm256_loadu_si256((const __m256i *) block.qs);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), qs);
        const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const __m128i pair = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
        return _mm_cvtsi128_si32(pair) + _mm_extract_epi32(pair, 1);
    }

    template <typename Of> static int32_t sum_of(const block_q8_K & block, int unit) {
        if constexpr (Of::UNIT == GROUP) return block.bsums[2 * unit] + block.bsums[2 * unit + 1];
        else return block.bsums[unit];
    }
};

/** Bytes by which few rows ask for weights before they read them. */
constexpr int64_t BYTES_AHEAD = 2048;

/** Asks for what follows some blocks. */
template <int COUNT, typename Block> inline void ask_ahead(const Block * blocks) {
    const char * ahead = (const char *) blocks + BYTES_AHEAD;
    for (int64_t at = 0; at < COUNT * (int64_t) sizeof(Block); at += LINE) _mm_prefetch(ahead + at, _MM_HINT_T0);
}

}  // namespace
