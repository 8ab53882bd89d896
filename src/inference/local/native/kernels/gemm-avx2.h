// GEMM and GEMV micro-kernels on 256-bit vectors, for AVX2 with or without AVX-VNNI. See gemm.cpp.
#pragma once

#include "gemm-activations.h"

namespace {

/** Rows of weights in a panel, one for each 32-bit lane of a vector. */
constexpr int MR = 8;
/** Rows of the batch in the micro-kernel's register block. */
constexpr int NR = 4;
/** Panels per micro-kernel call: registers suffice for the accumulators of one. */
template <typename Of> constexpr int MICRO_PANELS = 1;

#if defined(__AVXVNNI__)
constexpr bool HAS_VNNI = true;
inline __m256i dpbusd(__m256i sums, __m256i weights, __m256i quants) { return _mm256_dpbusd_avx_epi32(sums, weights, quants); }
#else
constexpr bool HAS_VNNI = false;
inline __m256i dpbusd(__m256i sums, __m256i, __m256i) { return sums; }
#endif

/** How many sums of two products fit into 16 bits; a quant of the batch is at most 127. */
template <typename Of> constexpr int I16_SUMS = Of::MAX_QUANT > 63 ? 1 : Of::MAX_QUANT > 31 ? 2 : Of::MAX_QUANT > 15 ? 4 : 8;

using VectorI32 = __m256i;
using VectorF32 = __m256;
inline VectorF32 to_f32(VectorI32 x) { return _mm256_cvtepi32_ps(x); }
inline VectorI32 add(VectorI32 a, VectorI32 b) { return _mm256_add_epi32(a, b); }
inline VectorF32 multiply(VectorF32 a, VectorF32 b) { return _mm256_mul_ps(a, b); }
inline VectorF32 load_f16(const ggml_half * from) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) from)); }
/** Converts scales from their 16 bits. */
template <typename Block> inline VectorF32 load_scales(const uint16_t * bits) {
    if constexpr (!HAS_BF16_SCALE<Block>) return load_f16(bits);
    else return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *) bits)), 16));
}
inline void store(float * to, VectorF32 x) { _mm256_store_ps(to, x); }
/** Broadcasts four neighbouring quants. */
inline VectorI32 broadcast_i8x4(const int8_t * quants) {
    int32_t four;
    std::memcpy(&four, quants, sizeof(four));
    return _mm256_set1_epi32(four);
}

/** Transposes 8 x 8 elements of four bytes. */
inline void transpose(const __m256i * rows, __m256i * out) {
    __m256i x[8], y[8];
    for (int i = 0; i < 8; i += 2) {
        x[i] = _mm256_unpacklo_epi32(rows[i], rows[i + 1]);
        x[i + 1] = _mm256_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        y[i] = _mm256_unpacklo_epi64(x[i], x[i + 2]);
        y[i + 1] = _mm256_unpackhi_epi64(x[i], x[i + 2]);
        y[i + 2] = _mm256_unpacklo_epi64(x[i + 1], x[i + 3]);
        y[i + 3] = _mm256_unpackhi_epi64(x[i + 1], x[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_store_si256(out + i, _mm256_permute2x128_si256(y[i], y[i + 4], 0x20));
        _mm256_store_si256(out + i + 4, _mm256_permute2x128_si256(y[i], y[i + 4], 0x31));
    }
}

/** Packs a block of MR rows: [group][four weights][lane][weight]. Bytes are signed where products of unsigned ones overflow. */
template <typename Block> inline void pack_bytes(const Block * const * rows, int64_t b, __m256i * lanes, uint8_t * bytes) {
    using Of = QuantTraits<Block>;
    for (int group = 0; group < Of::GROUPS; group++) {
        for (int lane = 0; lane < MR; lane++) {
            lanes[lane] = Of::unpack(rows[lane][b], group);
            if constexpr (I16_SUMS<Of> == 1 && !HAS_VNNI) {
                lanes[lane] = _mm256_xor_si256(lanes[lane], _mm256_set1_epi8((char) 0x80));
            }
        }
        transpose(lanes, (__m256i *) (bytes + (b * Of::GROUPS + group) * GROUP * MR));
    }
}

constexpr bool CONVERTS_SCALES_LAST = false;

}  // namespace

#include "gemm-panel.h"

namespace {

/** Dot products of a sub-block of MR rows of weights with COUNT rows of the batch. @param zero_terms zero-point contributions. */
template <typename Of, int COUNT>
inline void dot_sub_block(const __m256i * weights, const int8_t * quants, int64_t width, const int32_t * zero_terms,
                          __m256i * sums) {
    constexpr int STEPS = Of::SUB_BLOCK / 4;
    if constexpr (HAS_VNNI) {
        for (int r = 0; r < COUNT; r++) sums[r] = Of::ZERO_POINT == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(zero_terms[r]);
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) {
            const __m256i w = _mm256_load_si256(weights + step);
            for (int r = 0; r < COUNT; r++) sums[r] = dpbusd(sums[r], w, broadcast_i8x4(quants + r * width + 4 * step));
        }
    } else if constexpr (I16_SUMS<Of> == 1) {
        for (int r = 0; r < COUNT; r++) sums[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) {
            const __m256i w = _mm256_load_si256(weights + step);
            const __m256i size = _mm256_abs_epi8(w);
            for (int r = 0; r < COUNT; r++) {
                const __m256i v = _mm256_sign_epi8(broadcast_i8x4(quants + r * width + 4 * step), w);
                const __m256i pairs = _mm256_maddubs_epi16(size, v);
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    } else {
        constexpr int PART = std::min(I16_SUMS<Of>, STEPS);
        for (int r = 0; r < COUNT; r++) sums[r] = Of::ZERO_POINT == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(zero_terms[r]);
#pragma GCC unroll 8
        for (int start = 0; start < STEPS; start += PART) {
            __m256i pairs[COUNT];
            for (int r = 0; r < COUNT; r++) pairs[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int step = start; step < start + PART; step++) {
                const __m256i w = _mm256_load_si256(weights + step);
                for (int r = 0; r < COUNT; r++) {
                    const __m256i pair = _mm256_maddubs_epi16(w, broadcast_i8x4(quants + r * width + 4 * step));
                    pairs[r] = step == start ? pair : _mm256_add_epi16(pairs[r], pair);
                }
            }
            for (int r = 0; r < COUNT; r++) {
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
            }
        }
    }
}

/**
 * Micro-kernel: a panel times COUNT rows of the batch.
 * @param row the first of them, a multiple of NR. @param out results of each of them, of which `at` is the first row of weights.
 * @param count rows of weights in the panel.
 */
template <typename Of, int COUNT, int PANELS>
inline void micro_kernel(const WeightPanel * panels, const Activations<NR> & batch, int64_t row, int64_t width,
                         float * const * out, int64_t at, int64_t count) {
    static_assert(PANELS == 1, "registers hold the accumulators of one panel");
    const WeightPanel & panel = panels[0];
    constexpr int WIDTH = Of::GROUPS * GROUP, SUB_BLOCKS = WIDTH / Of::SUB_BLOCK;
    const int64_t sub_blocks = width / Of::SUB_BLOCK;
    const float * scales = batch.scales + row * sub_blocks;
    const int32_t * zero_terms = batch.zero_terms + row * sub_blocks;
    const int32_t * sum_pairs = batch.sum_pairs + row * sub_blocks / 2;
    const int8_t * quants = batch.quants + row * width;
    __m256 results[COUNT];
    for (int r = 0; r < COUNT; r++) results[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < width / WIDTH; b++) {
        __m256i block_sums[COUNT];
        for (int r = 0; r < COUNT; r++) block_sums[r] = _mm256_setzero_si256();
        for (int64_t u = b * SUB_BLOCKS; u < (b + 1) * SUB_BLOCKS; u++) {
            __m256i sums[COUNT];
            const __m256i * weights = (const __m256i *) (panel.bytes + u * Of::SUB_BLOCK * MR);
            dot_sub_block<Of, COUNT>(weights, quants + u * Of::SUB_BLOCK, width, zero_terms + u * NR, sums);
            if constexpr (SUB_BLOCKS == 1) {
                for (int r = 0; r < COUNT; r++) block_sums[r] = sums[r];
            } else {
                const __m256i scale = _mm256_load_si256((const __m256i *) (panel.sub_scales + u * MR));
                for (int r = 0; r < COUNT; r++) {
                    block_sums[r] = _mm256_add_epi32(block_sums[r], _mm256_mullo_epi32(sums[r], scale));
                }
            }
        }
        const float * block_scales = scales + b * SUB_BLOCKS * NR;
        const __m256 scale = _mm256_load_ps(panel.scales + b * MR);
        for (int r = 0; r < COUNT; r++) {
            const __m256 combined_scale = _mm256_mul_ps(scale, _mm256_broadcast_ss(block_scales + r));
            results[r] = _mm256_fmadd_ps(combined_scale, _mm256_cvtepi32_ps(block_sums[r]), results[r]);
        }
        if constexpr (Of::HAS_MIN) {
            const __m256 min_scale = _mm256_load_ps(panel.min_scales + b * MR);
            for (int r = 0; r < COUNT; r++) {
                __m256i sum = _mm256_setzero_si256();
                for (int64_t p = b * SUB_BLOCKS / 2; p < (b + 1) * SUB_BLOCKS / 2; p++) {
                    const __m256i pair = _mm256_load_si256((const __m256i *) (panel.mins + p * MR));
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pair, _mm256_set1_epi32(sum_pairs[p * NR + r])));
                }
                const __m256 combined_scale = _mm256_mul_ps(min_scale, _mm256_broadcast_ss(block_scales + r));
                results[r] = _mm256_fnmadd_ps(combined_scale, _mm256_cvtepi32_ps(sum), results[r]);
            }
        }
    }
    const __m256i count_here = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t) count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (int r = 0; r < COUNT; r++) _mm256_maskstore_ps(out[r] + at, count_here, results[r]);
}

/** Maximum rows of a batch for GEMV: up to here, packing a panel costs more than it saves. */
template <typename Of> constexpr int MAX_GEMV_ROWS = Of::GROUPS > 1 ? 4 : 2;

/** Scales for the 16-bit sums of neighbouring products of a group. */
template <typename Of> inline __m256i scales_of(__m128i scales, int group) {
    const int first = group * GROUP / Of::SUB_BLOCK;
    const int last = Of::SUB_BLOCK == GROUP ? first : first + 1;
    const __m128i lanes = _mm_set_epi64x(last * 0x0101010101010101, first * 0x0101010101010101);
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, lanes));
}

/** Blocks of each of four rows of weights that GEMV reads at a time. */
constexpr int GEMV_BLOCKS = 2;
/** Whether GEMV adds the zero-point contributions separately. */
template <typename Of> constexpr bool NEEDS_ZERO_POINT = Of::GROUPS == 1 && (HAS_VNNI || I16_SUMS<Of> > 1);

/** Repeats each of GEMV_BLOCKS elements four times. */
inline VectorI32 repeat_4(const int32_t * numbers) {
    const __m128i combined_scale = _mm_loadl_epi64((const __m128i *) numbers);
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(combined_scale), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}
inline VectorF32 repeat_4(const float * numbers) { return _mm256_castsi256_ps(repeat_4((const int32_t *) numbers)); }
template <int BLOCK> inline __m128 lane_of_block(VectorF32 x) { return _mm256_extractf128_ps(x, BLOCK); }

/** Horizontal sums of four vectors, for each 128-bit half. */
inline __m256i reduce_halves(const __m256i * x) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
}

/** Adds the two 128-bit halves of each vector. */
inline __m256i reduce_half_pairs(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/**
 * Dot products of GEMV_BLOCKS blocks, with one scale each, of four rows of weights: [row of the batch][block][row of weights].
 * @param from the blocks of each row of weights. @param b index of the first block.
 */
template <typename Block, int COUNT>
inline void dot_single_scale(const Block * const * from, const Activations<NR> & batch, int64_t b,
                             int64_t blocks, VectorI32 * sums) {
    using Of = QuantTraits<Block>;
    __m256i block_sums[COUNT][GEMV_BLOCKS];
#pragma GCC unroll 2
    for (int i = 0; i < GEMV_BLOCKS; i++) {
        __m256i row_sums[COUNT][4];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            if (i == 0) prefetch_ahead<GEMV_BLOCKS>(from[row]);
            __m256i w = Of::unpack(from[row][i], 0);
            if constexpr (!NEEDS_ZERO_POINT<Of>) w = _mm256_xor_si256(w, _mm256_set1_epi8((char) 0x80));
#pragma GCC unroll 4
            for (int r = 0; r < COUNT; r++) {
                const __m256i v = _mm256_loadu_si256((const __m256i *) (batch.quants + (r * blocks + b + i) * GROUP));
                if constexpr (HAS_VNNI) {
                    row_sums[r][row] = dpbusd(_mm256_setzero_si256(), w, v);
                } else {
                    const __m256i pairs = NEEDS_ZERO_POINT<Of> ? _mm256_maddubs_epi16(w, v)
                                                          : _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(v, w));
                    row_sums[r][row] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) block_sums[r][i] = reduce_halves(row_sums[r]);
    }
    for (int r = 0; r < COUNT; r++) sums[r] = reduce_half_pairs(block_sums[r][0], block_sums[r][1]);
}

/** Products of the mins of BLOCKS blocks and the sums of the batch's sub-blocks. @param mins as the sums of `dot_single_scale`. */
template <typename Block, int COUNT, int BLOCKS>
inline void dot_mins(const Block * const * from, const Activations<NR> & batch, int64_t b, int64_t blocks, VectorI32 * mins) {
    using Of = QuantTraits<Block>;
    constexpr int SUB_BLOCKS = 8;
    static_assert(Of::GROUPS * GROUP / Of::SUB_BLOCK == SUB_BLOCKS, "pairs of mins fill half a vector");
    // Each half has the pairs of 16-bit mins of one block: [row][pair], and then [pair][row].
    __m256i rows[4], twos[4], pairs[4];
    for (int row = 0; row < 4; row++) {
        const auto packed = [&](int64_t i) { return (int64_t) Of::packed_mins(from[row][i]); };
        rows[row] = _mm256_cvtepu8_epi16(_mm_set_epi64x(packed(BLOCKS - 1), packed(0)));
    }
    for (int row = 0; row < 4; row += 2) {
        twos[row] = _mm256_unpacklo_epi32(rows[row], rows[row + 1]);
        twos[row + 1] = _mm256_unpackhi_epi32(rows[row], rows[row + 1]);
    }
    for (int half = 0; half < 2; half++) {
        pairs[2 * half] = _mm256_unpacklo_epi64(twos[half], twos[half + 2]);
        pairs[2 * half + 1] = _mm256_unpackhi_epi64(twos[half], twos[half + 2]);
    }
    for (int r = 0; r < COUNT; r++) {
        const __m128i * sub_sums = (const __m128i *) (batch.sub_sums + (r * blocks + b) * SUB_BLOCKS);
        const __m256i values = _mm256_set_m128i(_mm_loadu_si128(sub_sums + BLOCKS - 1), _mm_loadu_si128(sub_sums));
        const __m256i firsts = _mm256_add_epi32(_mm256_madd_epi16(pairs[0], _mm256_shuffle_epi32(values, 0x00)),
                                                _mm256_madd_epi16(pairs[1], _mm256_shuffle_epi32(values, 0x55)));
        const __m256i lasts = _mm256_add_epi32(_mm256_madd_epi16(pairs[2], _mm256_shuffle_epi32(values, 0xaa)),
                                               _mm256_madd_epi16(pairs[3], _mm256_shuffle_epi32(values, 0xff)));
        mins[r] = _mm256_add_epi32(firsts, lasts);
    }
}

/** The same for BLOCKS blocks with several scales. @param mins sums of the mins times the sums of the batch's sub-blocks. */
template <typename Block, int COUNT, int BLOCKS>
inline void dot_sub_scales(const Block * const * from, const Activations<NR> & batch, int64_t b, int64_t blocks, VectorI32 * sums,
                           VectorI32 * mins) {
    using Of = QuantTraits<Block>;
    constexpr int SUB_BLOCKS = Of::GROUPS * GROUP / Of::SUB_BLOCK;
    constexpr int WIDTH = Of::GROUPS * GROUP;
    static_assert(Of::MAX_QUANT <= 127, "a sum of two products must fit into 16 bits");
    __m256i block_sums[COUNT][GEMV_BLOCKS] = {}, row_sums[COUNT][4];
    for (int i = 0; i < BLOCKS; i++) {
        for (int row = 0; row < 4; row++) {
            const Block & block = from[row][i];
            prefetch_ahead<1>(&block);
            const __m128i scales = Of::sub_scales(block);
            __m256i acc[COUNT];
            for (int r = 0; r < COUNT; r++) {
                const int16_t * of_sub_blocks = batch.sub_sums + (r * blocks + b + i) * SUB_BLOCKS;
                if constexpr (Of::ZERO_POINT == 0) {
                    acc[r] = _mm256_setzero_si256();
                } else {
                    const __m256i zero_point = _mm256_set1_epi16(-Of::ZERO_POINT);
                    const __m256i zero_terms = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(scales), zero_point);
                    acc[r] = _mm256_madd_epi16(zero_terms, _mm256_loadu_si256((const __m256i *) of_sub_blocks));
                }
            }
#pragma GCC unroll 8
            for (int group = 0; group < Of::GROUPS; group++) {
                const __m256i w = Of::unpack(block, group);
                const __m256i scale = scales_of<Of>(scales, group);
                for (int r = 0; r < COUNT; r++) {
                    const int8_t * quants = batch.quants + (r * blocks + b + i) * WIDTH + group * GROUP;
                    const __m256i pairs = _mm256_maddubs_epi16(w, _mm256_loadu_si256((const __m256i *) quants));
                    acc[r] = _mm256_add_epi32(acc[r], _mm256_madd_epi16(pairs, scale));
                }
            }
            for (int r = 0; r < COUNT; r++) row_sums[r][row] = acc[r];
        }
        for (int r = 0; r < COUNT; r++) block_sums[r][i] = reduce_halves(row_sums[r]);
    }
    for (int r = 0; r < COUNT; r++) sums[r] = reduce_half_pairs(block_sums[r][0], block_sums[r][1]);
    if constexpr (Of::HAS_MIN) dot_mins<Block, COUNT, BLOCKS>(from, batch, b, blocks, mins);
}

}  // namespace
