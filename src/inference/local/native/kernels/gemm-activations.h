// Packs the rows of a batch, quantised to Q8_0 or Q8_K, for GEMM and GEMV. See gemm.cpp.
#pragma once

#include "quant-blocks.h"
#include "micro-kernel.h"

namespace {

/** The rows of a batch. Scales and sums are interleaved for the NR rows of a micro-kernel call. */
template <int NR> struct Activations {
    AlignedBuffer<int8_t> quants_buffer;
    AlignedBuffer<float> scales_buffer, block_scales_buffer;
    AlignedBuffer<int16_t> sub_sums_buffer;
    AlignedBuffer<int32_t> zeros_buffer, block_zeros_buffer, sum_pairs_buffer;
    /** [row][column] */
    int8_t * quants;
    /** [block of NR rows][sub-block][row] */
    float * scales;
    /** What the weights' zero point contributes to the dot product of a sub-block, in the same layout. */
    int32_t * zero_terms;
    /** Pairs of 16-bit sums of neighbouring sub-blocks, which multiply the weights' mins: [block of NR rows][pair][row]. */
    int32_t * sum_pairs;
    /** Scales of blocks, and zero-point contributions of blocks with one scale: [row][block]. */
    float * block_scales;
    int32_t * block_zero_terms;
    /** Where a block has several scales, the sums of its sub-blocks: [row][sub-block]. */
    int16_t * sub_sums;

    /** @param rows each of `blocks` blocks. */
    template <typename Of> void pack(const typename Of::Activation * const * rows, int64_t count, int64_t blocks) {
        constexpr int SUB_BLOCKS = Of::GROUPS * GROUP / Of::SUB_BLOCK;
        constexpr int WIDTH = Of::GROUPS * GROUP;
        const int64_t size = (count + NR - 1) / NR * NR * blocks * SUB_BLOCKS;
        // GEMV may load blocks and vectors beyond the end.
        quants = quants_buffer.reserve((count * blocks + 4) * WIDTH);
        scales = scales_buffer.reserve(size);
        zero_terms = zeros_buffer.reserve(size);
        sum_pairs = sum_pairs_buffer.reserve(Of::HAS_MIN ? size / 2 : 0);
        block_scales = block_scales_buffer.reserve(count * blocks + 8);
        block_zero_terms = block_zeros_buffer.reserve(count * blocks + 8);
        sub_sums = sub_sums_buffer.reserve(SUB_BLOCKS > 1 ? count * blocks * SUB_BLOCKS : 0);
        for (int64_t row = 0; row < count; row++) {
            const int64_t first = row / NR * NR * blocks * SUB_BLOCKS + row % NR;
            const int64_t pairs = row / NR * NR * blocks * SUB_BLOCKS / 2 + row % NR;
            for (int64_t b = 0; b < blocks; b++) {
                const auto & block = rows[row][b];
                std::memcpy(quants + (row * blocks + b) * WIDTH, block.qs, WIDTH);
                block_scales[row * blocks + b] = scale_of(block);
                for (int sub_block = 0; sub_block < SUB_BLOCKS; sub_block++) {
                    const int64_t at = first + (b * SUB_BLOCKS + sub_block) * NR;
                    const int32_t sum = sum_of<Of>(block, sub_block);
                    scales[at] = scale_of(block);
                    zero_terms[at] = -Of::ZERO_POINT * sum;
                    if constexpr (SUB_BLOCKS == 1) block_zero_terms[row * blocks + b] = -Of::ZERO_POINT * sum;
                    else sub_sums[(row * blocks + b) * SUB_BLOCKS + sub_block] = (int16_t) sum;
                    if constexpr (Of::HAS_MIN) {
                        const int16_t sum_i16 = (int16_t) sum;
                        int32_t * pair = sum_pairs + pairs + (b * SUB_BLOCKS + sub_block) / 2 * NR;
                        std::memcpy((int16_t *) pair + sub_block % 2, &sum_i16, sizeof(sum_i16));
                    }
                }
            }
        }
    }

    static float scale_of(const block_q8_0 & block) { return to_f32(block.d); }
    static float scale_of(const block_q8_K & block) { return block.d; }

    template <typename Of> static int32_t sum_of(const block_q8_0 & block, int) {
        const __m256i qs = _mm256_loadu_si256((const __m256i *) block.qs);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), qs);
        const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const __m128i pair = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
        return _mm_cvtsi128_si32(pair) + _mm_extract_epi32(pair, 1);
    }

    template <typename Of> static int32_t sum_of(const block_q8_K & block, int sub_block) {
        if constexpr (Of::SUB_BLOCK == GROUP) return block.bsums[2 * sub_block] + block.bsums[2 * sub_block + 1];
        else return block.bsums[sub_block];
    }
};

/** Bytes by which GEMV prefetches weights ahead. */
constexpr int64_t PREFETCH_BYTES = 1024;

/** Prefetches what lies PREFETCH_BYTES after some blocks. */
template <int COUNT, typename Block> inline void prefetch_ahead(const Block * blocks) {
    const char * ahead = (const char *) blocks + PREFETCH_BYTES;
    for (int64_t at = 0; at < COUNT * (int64_t) sizeof(Block); at += CACHE_LINE) _mm_prefetch(ahead + at, _MM_HINT_T0);
}

}  // namespace
