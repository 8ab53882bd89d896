// GEMM and GEMV micro-kernels on 512-bit vectors, for AVX-512 VNNI. See gemm.cpp.
#pragma once

#include "gemm-activations.h"

namespace {

/** Rows of weights in a panel, one for each 32-bit lane of a vector. */
constexpr int MR = 16;
/** Rows of the batch in the micro-kernel's register block. */
constexpr int NR = 8;
/** Panels per micro-kernel call. Where blocks have several scales, registers do not suffice for two. */
template <typename Of> constexpr int MICRO_PANELS = Of::GROUPS > 1 ? 1 : 2;

using VectorI32 = __m512i;
using VectorF32 = __m512;
inline VectorF32 to_f32(VectorI32 x) { return _mm512_cvtepi32_ps(x); }
inline VectorI32 add(VectorI32 a, VectorI32 b) { return _mm512_add_epi32(a, b); }
inline VectorF32 multiply(VectorF32 a, VectorF32 b) { return _mm512_mul_ps(a, b); }
inline VectorF32 load_f16(const ggml_half * from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) from)); }
/** Converts scales from their 16 bits. */
template <typename Block> inline VectorF32 load_scales(const uint16_t * bits) {
    if constexpr (!HAS_BF16_SCALE<Block>) return load_f16(bits);
    else return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *) bits)), 16));
}
inline void store(float * to, VectorF32 x) { _mm512_store_ps(to, x); }
/** Broadcasts four neighbouring quants. */
inline VectorI32 broadcast_i8x4(const int8_t * quants) {
    int32_t four;
    std::memcpy(&four, quants, sizeof(four));
    return _mm512_set1_epi32(four);
}

/** Transposes 16 x 8 elements of four bytes. */
inline void transpose(const __m256i * rows, __m512i * out) {
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i upper = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    // Each vector holds row i in its lower half and row i + 8 in its upper half.
    __m512i x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = _mm512_inserti64x4(_mm512_castsi256_si512(rows[i]), rows[i + 8], 1);
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm512_store_si512(out + i, _mm512_permutex2var_epi64(x[i], lower, x[i + 4]));
        _mm512_store_si512(out + i + 4, _mm512_permutex2var_epi64(x[i], upper, x[i + 4]));
    }
}

/** Packs a block of MR rows: [group][four weights][lane][weight]. */
template <typename Block> inline void pack_bytes(const Block * const * rows, int64_t b, __m256i * lanes, uint8_t * bytes) {
    using Of = QuantTraits<Block>;
#pragma GCC unroll 8
    for (int group = 0; group < Of::GROUPS; group++) {
#pragma GCC unroll 16
        for (int lane = 0; lane < MR; lane++) lanes[lane] = Of::unpack(rows[lane][b], group);
        uint8_t * to = bytes + (b * Of::GROUPS + group) * GROUP * MR;
        transpose(lanes, (__m512i *) to);
    }
}

/** Not block by block: a vector load right after scalar stores to the same bytes stalls (no store forwarding). */
constexpr bool CONVERTS_SCALES_LAST = true;

}  // namespace

#include "gemm-panel.h"

namespace {

/**
 * Adds the dot products of a sub-block of PANELS panels with COUNT rows of the batch to `sums`.
 * @param at the sub-block's first column. @param quants of the rows, `width` for each.
 */
template <typename Of, int COUNT, int PANELS>
inline void dot_sub_block(const WeightPanel * panels, int64_t at, const int8_t * quants, int64_t width, __m512i (*sums)[COUNT]) {
#pragma GCC unroll 8
    for (int step = 0; step < Of::SUB_BLOCK / 4; step++) {
        __m512i w[PANELS];
        for (int p = 0; p < PANELS; p++) {
            w[p] = pin_register(_mm512_load_si512((const __m512i *) (panels[p].bytes + at * MR) + step));
        }
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512i v = broadcast_i8x4(quants + r * width + at + 4 * step);
            if constexpr (PANELS == 1) {
                sums[0][r] = _mm512_dpbusd_epi32(sums[0][r], w[0], v);
            } else {
                const __m512i once = pin_register(v);
                for (int p = 0; p < PANELS; p++) sums[p][r] = _mm512_dpbusd_epi32(sums[p][r], w[p], once);
            }
        }
    }
}

/** Micro-kernel for blocks with one scale. */
template <typename Of, int COUNT, int PANELS>
inline void micro_kernel_single_scale(const WeightPanel * panels, const Activations<NR> & batch, int64_t row, int64_t width,
                                      __m512 (*results)[COUNT]) {
    const int64_t sub_blocks = width / Of::SUB_BLOCK;
    const float * scales = batch.scales + row * sub_blocks;
    const int32_t * zero_terms = batch.zero_terms + row * sub_blocks;
    for (int64_t u = 0; u < sub_blocks; u++) {
        __m512i sums[PANELS][COUNT];
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512i start = Of::ZERO_POINT == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(zero_terms[u * NR + r]);
            for (int p = 0; p < PANELS; p++) sums[p][r] = start;
        }
        dot_sub_block<Of, COUNT, PANELS>(panels, u * Of::SUB_BLOCK, batch.quants + row * width, width, sums);
#pragma GCC unroll 2
        for (int p = 0; p < PANELS; p++) {
            const __m512 scale = _mm512_load_ps(panels[p].scales + u * MR);
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const __m512 combined_scale = _mm512_mul_ps(scale, _mm512_set1_ps(scales[u * NR + r]));
                results[p][r] = _mm512_fmadd_ps(combined_scale, _mm512_cvtepi32_ps(sums[p][r]), results[p][r]);
            }
        }
    }
}

/** Micro-kernel for blocks with several scales. The sums of a block are integers until its own scale is applied. */
template <typename Of, int COUNT>
inline void micro_kernel_sub_scales(const WeightPanel & panel, const Activations<NR> & batch, int64_t row, int64_t width,
                                    __m512 * results) {
    constexpr int WIDTH = Of::GROUPS * GROUP, SUB_BLOCKS = WIDTH / Of::SUB_BLOCK;
    const int64_t sub_blocks = width / Of::SUB_BLOCK;
    const float * scales = batch.scales + row * sub_blocks;
    const int32_t * zero_terms = batch.zero_terms + row * sub_blocks;
    const int32_t * sum_pairs = batch.sum_pairs + row * sub_blocks / 2;
    for (int64_t b = 0; b < width / WIDTH; b++) {
        __m512i block_sums[COUNT];
        for (int r = 0; r < COUNT; r++) block_sums[r] = _mm512_setzero_si512();
        for (int64_t u = b * SUB_BLOCKS; u < (b + 1) * SUB_BLOCKS; u++) {
            __m512i sums[1][COUNT];
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                sums[0][r] = Of::ZERO_POINT == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(zero_terms[u * NR + r]);
            }
            dot_sub_block<Of, COUNT, 1>(&panel, u * Of::SUB_BLOCK, batch.quants + row * width, width, sums);
            const __m512i scale = _mm512_load_si512(panel.sub_scales + u * MR);
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                block_sums[r] = _mm512_add_epi32(block_sums[r], _mm512_mullo_epi32(sums[0][r], scale));
            }
        }
        const __m512 scale = _mm512_load_ps(panel.scales + b * MR);
        const float * block_scales = scales + b * SUB_BLOCKS * NR;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512 combined_scale = _mm512_mul_ps(scale, _mm512_set1_ps(block_scales[r]));
            results[r] = _mm512_fmadd_ps(combined_scale, _mm512_cvtepi32_ps(block_sums[r]), results[r]);
        }
        if constexpr (Of::HAS_MIN) {
            const __m512 min_scale = _mm512_load_ps(panel.min_scales + b * MR);
            __m512i sums[COUNT];
            for (int r = 0; r < COUNT; r++) sums[r] = _mm512_setzero_si512();
            for (int64_t p = b * SUB_BLOCKS / 2; p < (b + 1) * SUB_BLOCKS / 2; p++) {
                const __m512i pair = _mm512_load_si512(panel.mins + p * MR);
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    sums[r] = _mm512_dpwssd_epi32(sums[r], pair, _mm512_set1_epi32(sum_pairs[p * NR + r]));
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const __m512 combined_scale = _mm512_mul_ps(min_scale, _mm512_set1_ps(block_scales[r]));
                results[r] = _mm512_fnmadd_ps(combined_scale, _mm512_cvtepi32_ps(sums[r]), results[r]);
            }
        }
    }
}

/**
 * Micro-kernel: PANELS panels times COUNT rows of the batch.
 * @param row the first of them, a multiple of NR. @param out results of each of them, of which `at` is the first row of weights.
 * @param count rows of weights in the last panel.
 */
template <typename Of, int COUNT, int PANELS>
inline void micro_kernel(const WeightPanel * panels, const Activations<NR> & batch, int64_t row, int64_t width,
                         float * const * out, int64_t at, int64_t count) {
    __m512 results[PANELS][COUNT];
#pragma GCC unroll 2
    for (int p = 0; p < PANELS; p++) {
        for (int r = 0; r < COUNT; r++) results[p][r] = _mm512_setzero_ps();
    }
    if constexpr (Of::GROUPS == 1) micro_kernel_single_scale<Of, COUNT, PANELS>(panels, batch, row, width, results);
    else micro_kernel_sub_scales<Of, COUNT>(*panels, batch, row, width, results[0]);
    const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
    for (int p = 0; p < PANELS; p++) {
        const __mmask16 count_here = p == PANELS - 1 ? lanes : (__mmask16) 0xffff;
        for (int r = 0; r < COUNT; r++) _mm512_mask_storeu_ps(out[r] + at + p * MR, count_here, results[p][r]);
    }
}

/** Maximum rows of a batch for GEMV: up to here, packing a panel costs more than it saves. */
template <typename Of> constexpr int MAX_GEMV_ROWS = Of::GROUPS > 1 ? 6 : 3;

/** Indices in a block of the scales for the 16-bit sums of neighbouring products of 64 weights. @param part index of the 64. */
template <typename Of> inline __m512i scale_indices(int part) {
    const __m512i lane = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                                          10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i of_part = _mm512_srli_epi16(lane, Of::SUB_BLOCK == GROUP ? 4 : 3);
    return _mm512_add_epi16(of_part, _mm512_set1_epi16(part * 64 / Of::SUB_BLOCK));
}

/** Blocks of each of four rows of weights that GEMV reads at a time. */
constexpr int GEMV_BLOCKS = 4;
/** Whether GEMV adds the zero-point contributions separately. */
template <typename Of> constexpr bool NEEDS_ZERO_POINT = Of::GROUPS == 1;

/** Repeats each of GEMV_BLOCKS elements four times. */
inline VectorI32 repeat_4(const int32_t * numbers) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(places, _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) numbers)));
}
inline VectorF32 repeat_4(const float * numbers) { return _mm512_castsi512_ps(repeat_4((const int32_t *) numbers)); }
template <int BLOCK> inline __m128 lane_of_block(VectorF32 x) { return _mm512_extractf32x4_ps(x, BLOCK); }

/** Horizontal sums of four vectors, for each 128-bit quarter. */
inline __m512i reduce_quarters(const __m512i * x) {
    const auto add_twos = [](__m512i a, __m512i b) {
        return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    };
    const __m512i a = add_twos(x[0], x[1]), b = add_twos(x[2], x[3]);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/** Adds neighbouring 128-bit quarters. */
inline __m512i reduce_quarter_pairs(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/**
 * Dot products of GEMV_BLOCKS blocks, with one scale each, of four rows of weights: [row of the batch][block][row of weights].
 * @param from the blocks of each row of weights. @param b index of the first block.
 */
template <typename Block, int COUNT>
inline void dot_single_scale(const Block * const * from, const Activations<NR> & batch, int64_t b,
                             int64_t blocks, VectorI32 * sums) {
    using Of = QuantTraits<Block>;
    __m512i pair_sums[COUNT][2][4];
#pragma GCC unroll 4
    for (int row = 0; row < 4; row++) {
        prefetch_ahead<GEMV_BLOCKS>(from[row]);
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; pair++) {
            const Block * acc = from[row] + 2 * pair;
            const __m512i w = _mm512_inserti64x4(_mm512_castsi256_si512(Of::unpack(acc[0], 0)), Of::unpack(acc[1], 0), 1);
#pragma GCC unroll 4
            for (int r = 0; r < COUNT; r++) {
                const __m512i v = _mm512_loadu_si512(batch.quants + (r * blocks + b + 2 * pair) * GROUP);
                pair_sums[r][pair][row] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, v);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++) {
        sums[r] = reduce_quarter_pairs(reduce_quarters(pair_sums[r][0]), reduce_quarters(pair_sums[r][1]));
    }
}

/** Groups 2 `pair` and 2 `pair` + 1 of a block with several scales. */
inline __m512i unpack_pair(const block_q4_K & block, int pair) {
    const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) block.qs + pair));
    return _mm512_and_si512(_mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4)), _mm512_set1_epi8(15));
}

inline __m512i unpack_pair(const block_q5_K & block, int pair) {
    const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) block.qs + pair));
    const __m512i low = _mm512_and_si512(_mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 0, 0, 4, 4, 4, 4)), _mm512_set1_epi8(15));
    const __m512i bits = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) block.qh));
    const __m256i bit = _mm256_set1_epi8((char) (1 << 2 * pair));
    const __m512i bit_of_half = _mm512_inserti64x4(_mm512_castsi256_si512(bit), _mm256_add_epi8(bit, bit), 1);
    return _mm512_mask_add_epi8(low, _mm512_test_epi8_mask(bits, bit_of_half), low, _mm512_set1_epi8(16));
}

inline __m512i unpack_pair(const block_q6_K & block, int pair) {
    const __m512i both = _mm512_loadu_si512(block.ql + pair / 2 * 64);
    const __m512i low = _mm512_and_si512(pair % 2 == 0 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
    const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) block.qh + pair / 2));
    // Group g has two bits from bit 2 g of `high` on, which belong at bits 4 and 5. A rotation to the left by 62 is a shift to the
    // right by 2.
    const __m512i turns = pair % 2 == 0 ? _mm512_setr_epi64(4, 4, 4, 4, 2, 2, 2, 2) : _mm512_setr_epi64(0, 0, 0, 0, 62, 62, 62, 62);
    constexpr int LOW_OR_MASKED_HIGH = 0xf8;
    return _mm512_ternarylogic_epi64(low, _mm512_rolv_epi64(high, turns), _mm512_set1_epi8(0x30), LOW_OR_MASKED_HIGH);
}

/** `dot_single_scale` for BLOCKS blocks with several scales. @param mins sums of the mins times the sums of the batch's sub-blocks. */
template <typename Block, int COUNT, int BLOCKS>
inline void dot_sub_scales(const Block * const * from, const Activations<NR> & batch, int64_t b, int64_t blocks, VectorI32 * sums,
                           VectorI32 * mins) {
    using Of = QuantTraits<Block>;
    constexpr int SUB_BLOCKS = Of::GROUPS * GROUP / Of::SUB_BLOCK;
    constexpr int WIDTH = Of::GROUPS * GROUP;
    static_assert(Of::MAX_QUANT <= 127, "a sum of two products must fit into 16 bits");
    __m512i block_sums[COUNT][GEMV_BLOCKS] = {};
    alignas(CACHE_LINE) __m128i min_sums[COUNT][4][GEMV_BLOCKS];
    if constexpr (BLOCKS < GEMV_BLOCKS) std::memset(min_sums, 0, sizeof(min_sums));
    for (int i = 0; i < BLOCKS; i++) {
        __m512i row_sums[COUNT][4];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            const Block & block = from[row][i];
            prefetch_ahead<1>(&block);
            const __m256i scales = _mm256_cvtepi8_epi16(Of::sub_scales(block));
            __m512i acc[COUNT];
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const int16_t * of_sub_blocks = batch.sub_sums + (r * blocks + b + i) * SUB_BLOCKS;
                if constexpr (Of::HAS_MIN) {
                    const __m128i bytes = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t) Of::packed_mins(block)));
                    min_sums[r][row][i] = _mm_madd_epi16(bytes, _mm_loadu_si128((const __m128i *) of_sub_blocks));
                }
                if constexpr (Of::ZERO_POINT == 0) {
                    acc[r] = _mm512_setzero_si512();
                } else {
                    const __m256i zero_terms = _mm256_mullo_epi16(scales, _mm256_set1_epi16(-Of::ZERO_POINT));
                    const __m256i sums_of_batch = _mm256_loadu_si256((const __m256i *) of_sub_blocks);
                    acc[r] = _mm512_zextsi256_si512(_mm256_madd_epi16(zero_terms, sums_of_batch));
                }
            }
#pragma GCC unroll 4
            for (int part = 0; part < WIDTH / 64; part++) {
                const __m512i w = unpack_pair(block, part);
                const __m512i scale = _mm512_permutexvar_epi16(scale_indices<Of>(part), _mm512_castsi256_si512(scales));
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    const __m512i v = _mm512_loadu_si512(batch.quants + (r * blocks + b + i) * WIDTH + 64 * part);
                    acc[r] = _mm512_dpwssd_epi32(acc[r], _mm512_maddubs_epi16(w, v), scale);
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) row_sums[r][row] = acc[r];
        }
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) block_sums[r][i] = reduce_quarters(row_sums[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < COUNT; r++) {
        sums[r] = reduce_quarter_pairs(reduce_quarter_pairs(block_sums[r][0], block_sums[r][1]),
                                       reduce_quarter_pairs(block_sums[r][2], block_sums[r][3]));
        if constexpr (Of::HAS_MIN) mins[r] = reduce_quarters((const __m512i *) min_sums[r]);
    }
}

}  // namespace
