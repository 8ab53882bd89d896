// The rows of a batch, as products read them. See product.cpp.
#pragma once

#include "product-blocks.h"
#include "registers.h"

namespace {

/** A batch's rows, of which TOGETHER are computed together: values, and for each unit of so many rows their scales, zero points and sums. */
template <int TOGETHER> struct Batch {
    Buffer<int8_t> values_memory;
    Buffer<float> scales_memory, sums_memory, row_sums_memory, row_scales_memory;
    Buffer<int32_t> zeros_memory, lane_zeros_memory, sum_pairs_memory;
    /** [row][value] */
    int8_t * values;
    /** [TOGETHER rows][unit][row] */
    float * scales;
    /** What the weights' zero points add to a unit's sum. */
    int32_t * zeros;
    /** Scaled sums of a unit's values, which the weights' minima are multiplied with. */
    float * sums;
    /** The sums of two neighbouring units, whole numbers of 16 bits: [TOGETHER rows][pair of units][row]. */
    int32_t * sum_pairs;
    /** The scaled sums as [row][unit], and a scale for each block as [row][block]. */
    float * row_sums;
    float * row_scales;
    /**
     * What the zero points add for each four neighbours of a row's values. Where a block has one scale, few rows need this,
     * values and row_scales; the others are then not set.
     */
    int32_t * lane_zeros;

    template <typename Of>
    void read(const typename Of::Row * rows, int64_t stride, int64_t count, int64_t blocks, bool are_few) {
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        constexpr int WIDTH = Of::GROUPS * GROUP;
        const int64_t size = (count + TOGETHER - 1) / TOGETHER * TOGETHER * blocks * UNITS;
        values = values_memory.of(count * blocks * WIDTH);
        scales = scales_memory.of(size);
        zeros = zeros_memory.of(size);
        sums = sums_memory.of(size);
        sum_pairs = sum_pairs_memory.of(Of::HAS_MINIMUM ? size / 2 : 0);
        row_sums = row_sums_memory.of(count * blocks * UNITS);
        row_scales = row_scales_memory.of(count * blocks);
        lane_zeros = lane_zeros_memory.of(Of::GROUPS == 1 && are_few ? count * blocks * WIDTH / 4 : 0);
        for (int64_t row = 0; row < count; row++) {
            const int64_t first = row / TOGETHER * TOGETHER * blocks * UNITS + row % TOGETHER;
            const int64_t pairs = row / TOGETHER * TOGETHER * blocks * UNITS / 2 + row % TOGETHER;
            for (int64_t b = 0; b < blocks; b++) {
                const auto & block = rows[row * stride + b];
                std::memcpy(values + (row * blocks + b) * WIDTH, block.qs, WIDTH);
                row_scales[row * blocks + b] = scale_of(block);
                if constexpr (Of::GROUPS == 1) {
                    if (are_few) {
                        const __m256i of_lanes = _mm256_mullo_epi32(sums_of_four(block), _mm256_set1_epi32(-Of::ZERO));
                        _mm256_store_si256((__m256i *) lane_zeros + row * blocks + b, of_lanes);
                        continue;
                    }
                }
                for (int unit = 0; unit < UNITS; unit++) {
                    const int64_t at = first + (b * UNITS + unit) * TOGETHER;
                    const int32_t sum = sum_of<Of>(block, unit);
                    const float scale = scale_of(block);
                    scales[at] = scale;
                    zeros[at] = -Of::ZERO * sum;
                    sums[at] = scale * sum;
                    row_sums[(row * blocks + b) * UNITS + unit] = scale * sum;
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

    static __m256i sums_of_four(const block_q8_0 & block) {
        const __m256i qs = _mm256_loadu_si256((const __m256i *) block.qs);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), qs);
        return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    }

    template <typename Of> static int32_t sum_of(const block_q8_0 & block, int) {
        const __m256i sums = sums_of_four(block);
        const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const __m128i pair = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
        return _mm_cvtsi128_si32(pair) + _mm_extract_epi32(pair, 1);
    }

    template <typename Of> static int32_t sum_of(const block_q8_K & block, int unit) {
        if constexpr (Of::UNIT == GROUP) return block.bsums[2 * unit] + block.bsums[2 * unit + 1];
        else return block.bsums[unit];
    }
};

}  // namespace
