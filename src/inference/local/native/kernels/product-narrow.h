// Products on vectors of 32 bytes, for processors with AVX2, with AVX-VNNI or without. See product.cpp.
#pragma once

#include "product-batch.h"

namespace {

/** Rows of weights in a panel: lanes of a vector. */
constexpr int LANES = 8;
/** Rows of the batch that are computed together; their sums stay in registers. */
constexpr int TOGETHER = 4;
/** Panels that are multiplied together: there are registers for the sums of one. */
template <typename Of> constexpr int PANELS = 1;

#if defined(__AVXVNNI__)
constexpr bool SUMS_FOUR = true;
inline __m256i sum_fours(__m256i sums, __m256i weights, __m256i values) { return _mm256_dpbusd_avx_epi32(sums, weights, values); }
#else
constexpr bool SUMS_FOUR = false;
inline __m256i sum_fours(__m256i sums, __m256i, __m256i) { return sums; }
#endif

/** How many sums of two products of weights and values fit into 16 bits; a value is at most 127. */
template <typename Of> constexpr int FITTING = Of::LARGEST > 63 ? 1 : Of::LARGEST > 31 ? 2 : Of::LARGEST > 15 ? 4 : 8;

/** Turns eight rows of eight elements into eight rows of the columns; an element has four bytes. */
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

/**
 * Eight rows of weights: bytes, and scales and minima for each lane. A vector holds four neighbouring
 * weights of each row: unsigned bytes, but signed ones where the processor multiplies pairs and those would not fit.
 */
struct Panel {
    Buffer<uint8_t> bytes_memory;
    Buffer<float> scales_memory, minimum_scales_memory;
    Buffer<int32_t> unit_scales_memory, minima_memory;
    uint8_t * bytes;
    /** Of each block, and what its minima are multiplied with. */
    float * scales;
    float * minimum_scales;
    /** Where a block has several scales, whole numbers: one for each unit, and minima for each two units, of 16 bits. */
    int32_t * unit_scales;
    int32_t * minima;

    /** @param count rows that there are, from 1 to LANES; the last one fills the others. */
    template <typename Block> void read(const Block * weights, int64_t stride, int64_t count, int64_t blocks) {
        using Of = Type<Block>;
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        bytes = bytes_memory.of(blocks * Of::GROUPS * GROUP * LANES);
        scales = scales_memory.of(blocks * LANES);
        minimum_scales = minimum_scales_memory.of(Of::HAS_MINIMUM ? blocks * LANES : 0);
        unit_scales = unit_scales_memory.of(UNITS > 1 ? blocks * UNITS * LANES : 0);
        // A transposition writes as much again.
        minima = minima_memory.of(Of::HAS_MINIMUM ? (blocks + 1) * UNITS / 2 * LANES : 0);
        const Block * rows[LANES];
        for (int lane = 0; lane < LANES; lane++) rows[lane] = weights + std::min<int64_t>(lane, count - 1) * stride;
        const char * next = (const char *) (weights + LANES * stride);
        __m256i lanes[LANES];
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t start = b * LANES * sizeof(Block);
            for (int64_t at = start; at < start + LANES * (int64_t) sizeof(Block); at += LINE) {
                _mm_prefetch(next + at, _MM_HINT_T1);
            }
            for (int group = 0; group < Of::GROUPS; group++) {
                for (int lane = 0; lane < LANES; lane++) {
                    lanes[lane] = Of::bytes(rows[lane][b], group);
                    if constexpr (FITTING<Of> == 1 && !SUMS_FOUR) {
                        lanes[lane] = _mm256_xor_si256(lanes[lane], _mm256_set1_epi8((char) 0x80));
                    }
                }
                transpose(lanes, (__m256i *) (bytes + (b * Of::GROUPS + group) * GROUP * LANES));
            }
            for (int lane = 0; lane < LANES; lane++) {
                scales[b * LANES + lane] = single(rows[lane][b].d);
                if constexpr (Of::HAS_MINIMUM) minimum_scales[b * LANES + lane] = single(rows[lane][b].dmin);
            }
            if constexpr (UNITS > 1) {
                for (int part = 0; part < UNITS / 8; part++) {
                    for (int lane = 0; lane < LANES; lane++) {
                        const __m128i whole = Of::whole_scales(rows[lane][b]);
                        lanes[lane] = _mm256_cvtepi8_epi32(part == 0 ? whole : _mm_unpackhi_epi64(whole, whole));
                    }
                    transpose(lanes, (__m256i *) (unit_scales + (b * UNITS + 8 * part) * LANES));
                }
            }
            if constexpr (Of::HAS_MINIMUM) {
                for (int lane = 0; lane < LANES; lane++) {
                    const __m128i packed = _mm_cvtsi64_si128((int64_t) Of::packed_minima(rows[lane][b]));
                    lanes[lane] = _mm256_zextsi128_si256(_mm_cvtepu8_epi16(packed));
                }
                transpose(lanes, (__m256i *) (minima + b * UNITS / 2 * LANES));
            }
        }
    }
};

inline __m256i four(const int8_t * values) {
    int32_t of;
    std::memcpy(&of, values, sizeof(of));
    return _mm256_set1_epi32(of);
}

/** The sums of a unit's products for COUNT rows. @param zeros what the weights' zero points add to them. */
template <typename Of, int COUNT>
inline void sum_unit(const __m256i * weights, const int8_t * values, int64_t width, const int32_t * zeros, __m256i * sums) {
    constexpr int STEPS = Of::UNIT / 4;
    if constexpr (SUMS_FOUR) {
        for (int r = 0; r < COUNT; r++) sums[r] = Of::ZERO == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(zeros[r]);
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) {
            const __m256i w = _mm256_load_si256(weights + step);
            for (int r = 0; r < COUNT; r++) sums[r] = sum_fours(sums[r], w, four(values + r * width + 4 * step));
        }
    } else if constexpr (FITTING<Of> == 1) {
        for (int r = 0; r < COUNT; r++) sums[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) {
            const __m256i w = _mm256_load_si256(weights + step);
            const __m256i size = _mm256_abs_epi8(w);
            for (int r = 0; r < COUNT; r++) {
                const __m256i v = _mm256_sign_epi8(four(values + r * width + 4 * step), w);
                const __m256i pairs = _mm256_maddubs_epi16(size, v);
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
        }
    } else {
        constexpr int PART = std::min(FITTING<Of>, STEPS);
        for (int r = 0; r < COUNT; r++) sums[r] = Of::ZERO == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(zeros[r]);
#pragma GCC unroll 8
        for (int start = 0; start < STEPS; start += PART) {
            __m256i pairs[COUNT];
            for (int r = 0; r < COUNT; r++) pairs[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
            for (int step = start; step < start + PART; step++) {
                const __m256i w = _mm256_load_si256(weights + step);
                for (int r = 0; r < COUNT; r++) {
                    const __m256i two = _mm256_maddubs_epi16(w, four(values + r * width + 4 * step));
                    pairs[r] = step == start ? two : _mm256_add_epi16(pairs[r], two);
                }
            }
            for (int r = 0; r < COUNT; r++) {
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1)));
            }
        }
    }
}

/**
 * The products of a panel and COUNT rows of the batch.
 * @param row the first of them, a multiple of TOGETHER. @param count rows of weights that there are.
 */
template <typename Of, int COUNT, int SOME>
inline void multiply(const Panel * panels, const Batch<TOGETHER> & batch, int64_t row, int64_t width, float * out,
                     int64_t stride, int64_t count) {
    static_assert(SOME == 1, "sums of one panel are in registers");
    const Panel & panel = panels[0];
    constexpr int WIDTH = Of::GROUPS * GROUP, UNITS = WIDTH / Of::UNIT;
    const int64_t units = width / Of::UNIT;
    const float * scales = batch.scales + row * units;
    const int32_t * zeros = batch.zeros + row * units;
    const int32_t * sum_pairs = batch.sum_pairs + row * units / 2;
    const int8_t * values = batch.values + row * width;
    __m256 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < width / WIDTH; b++) {
        __m256i wholes[COUNT];
        for (int r = 0; r < COUNT; r++) wholes[r] = _mm256_setzero_si256();
        for (int64_t u = b * UNITS; u < (b + 1) * UNITS; u++) {
            __m256i sums[COUNT];
            const __m256i * weights = (const __m256i *) (panel.bytes + u * Of::UNIT * LANES);
            sum_unit<Of, COUNT>(weights, values + u * Of::UNIT, width, zeros + u * TOGETHER, sums);
            if constexpr (UNITS == 1) {
                for (int r = 0; r < COUNT; r++) wholes[r] = sums[r];
            } else {
                const __m256i scale = _mm256_load_si256((const __m256i *) (panel.unit_scales + u * LANES));
                for (int r = 0; r < COUNT; r++) wholes[r] = _mm256_add_epi32(wholes[r], _mm256_mullo_epi32(sums[r], scale));
            }
        }
        const float * row_scales = scales + b * UNITS * TOGETHER;
        const __m256 scale = _mm256_load_ps(panel.scales + b * LANES);
        for (int r = 0; r < COUNT; r++) {
            const __m256 both = _mm256_mul_ps(scale, _mm256_broadcast_ss(row_scales + r));
            totals[r] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(wholes[r]), totals[r]);
        }
        if constexpr (Of::HAS_MINIMUM) {
            const __m256 minimum_scale = _mm256_load_ps(panel.minimum_scales + b * LANES);
            for (int r = 0; r < COUNT; r++) {
                __m256i sum = _mm256_setzero_si256();
                for (int64_t pair = b * UNITS / 2; pair < (b + 1) * UNITS / 2; pair++) {
                    const __m256i two = _mm256_load_si256((const __m256i *) (panel.minima + pair * LANES));
                    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(two, _mm256_set1_epi32(sum_pairs[pair * TOGETHER + r])));
                }
                const __m256 both = _mm256_mul_ps(minimum_scale, _mm256_broadcast_ss(row_scales + r));
                totals[r] = _mm256_fnmadd_ps(both, _mm256_cvtepi32_ps(sum), totals[r]);
            }
        }
    }
    const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t) count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (int r = 0; r < COUNT; r++) _mm256_maskstore_ps(out + r * stride, there, totals[r]);
}

/** Up to so many rows, a panel costs more than it saves. */
template <typename Of> constexpr int FEW = Of::GROUPS > 1 ? 8 : 2;

/** The scale of each sum of two neighbouring weights of a group. */
template <typename Of> inline __m256i scales_of(__m128i all, int group) {
    const int first = group * GROUP / Of::UNIT;
    const int last = Of::UNIT == GROUP ? first : first + 1;
    const __m128i lanes = _mm_set_epi64x(last * 0x0101010101010101, first * 0x0101010101010101);
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(all, lanes));
}

/** Blocks of a row of weights that few rows are multiplied with at a time, those of four rows of weights. */
constexpr int FEW_BLOCKS = 2;
/** Whether few rows' sums lack what the weights' zero points add. */
template <typename Of> constexpr bool LACKS_ZEROS = Of::GROUPS == 1 && (SUMS_FOUR || FITTING<Of> > 1);

using Vector = __m256i;
using Numbers = __m256;
inline Numbers numbers(Vector whole) { return _mm256_cvtepi32_ps(whole); }
inline Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
inline Numbers times(Numbers a, Numbers b) { return _mm256_mul_ps(a, b); }
inline Numbers numbers_of_halves(const ggml_half * halves) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) halves)); }
/** Each of FEW_BLOCKS numbers four times. */
inline Vector four_times(const int32_t * numbers) {
    const __m128i both = _mm_loadl_epi64((const __m128i *) numbers);
    return _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(both), _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}
inline Numbers four_times(const float * numbers) { return _mm256_castsi256_ps(four_times((const int32_t *) numbers)); }
template <int BLOCK> inline __m128 of_block(Numbers x) { return _mm256_extractf128_ps(x, BLOCK); }

/** In each half of a vector the sums of those of four vectors. */
inline __m256i sums_of_halves(const __m256i * x) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
}

/** Adds both halves of each. */
inline __m256i add_halves(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/**
 * The sums of the products of FEW_BLOCKS blocks of four rows of weights, which have one scale each: [row of the batch][block][row].
 * @param from the blocks of each row. @param b the number of the first.
 */
template <typename Block, int COUNT>
inline void sum_blocks_of_one_scale(const Block * const * from, const Batch<TOGETHER> & batch, int64_t b,
                                    int64_t blocks, Vector * sums) {
    using Of = Type<Block>;
    __m256i of_blocks[COUNT][FEW_BLOCKS];
#pragma GCC unroll 2
    for (int i = 0; i < FEW_BLOCKS; i++) {
        __m256i of_rows[COUNT][4];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            if (i == 0) ask_ahead<FEW_BLOCKS>(from[row]);
            __m256i w = Of::bytes(from[row][i], 0);
            if constexpr (!LACKS_ZEROS<Of>) w = _mm256_xor_si256(w, _mm256_set1_epi8((char) 0x80));
#pragma GCC unroll 4
            for (int r = 0; r < COUNT; r++) {
                const __m256i v = _mm256_loadu_si256((const __m256i *) (batch.values + (r * blocks + b + i) * GROUP));
                if constexpr (SUMS_FOUR) {
                    of_rows[r][row] = sum_fours(_mm256_setzero_si256(), w, v);
                } else {
                    const __m256i pairs = LACKS_ZEROS<Of> ? _mm256_maddubs_epi16(w, v)
                                                          : _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(v, w));
                    of_rows[r][row] = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < COUNT; r++) of_blocks[r][i] = sums_of_halves(of_rows[r]);
    }
    for (int r = 0; r < COUNT; r++) sums[r] = add_halves(of_blocks[r][0], of_blocks[r][1]);
}

/** The same where blocks have several scales, and the sums of their minima times the batch's values. */
template <typename Block, int COUNT>
inline void sum_blocks_of_scales(const Block * const * from, const Batch<TOGETHER> & batch, int64_t b,
                                 int64_t blocks, int64_t there, Vector * sums, Vector * minima) {
    using Of = Type<Block>;
    constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
    constexpr int WIDTH = Of::GROUPS * GROUP;
    static_assert(Of::LARGEST <= 127, "a sum of two products must fit into 16 bits");
    __m256i of_blocks[COUNT][FEW_BLOCKS], of_rows[COUNT][4];
    alignas(LINE) __m128i of_minima[COUNT][4][FEW_BLOCKS];
    for (int i = 0; i < FEW_BLOCKS; i++) {
        const int64_t at = std::min<int64_t>(i, there - 1);
        for (int row = 0; row < 4; row++) {
            const Block & block = from[row][at];
            ask_ahead<1>(&block);
            const __m128i scales = Of::whole_scales(block);
            __m256i some[COUNT];
            for (int r = 0; r < COUNT; r++) {
                const int16_t * of_units = batch.row_sums + (r * blocks + b + at) * UNITS;
                if constexpr (Of::HAS_MINIMUM) {
                    const __m128i bytes = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t) Of::packed_minima(block)));
                    of_minima[r][row][i] = _mm_madd_epi16(bytes, _mm_loadu_si128((const __m128i *) of_units));
                }
                if constexpr (Of::ZERO == 0) {
                    some[r] = _mm256_setzero_si256();
                } else {
                    const __m256i zeros = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(scales), _mm256_set1_epi16(-Of::ZERO));
                    some[r] = _mm256_madd_epi16(zeros, _mm256_loadu_si256((const __m256i *) of_units));
                }
            }
#pragma GCC unroll 8
            for (int group = 0; group < Of::GROUPS; group++) {
                const __m256i w = Of::bytes(block, group);
                const __m256i scale = scales_of<Of>(scales, group);
                for (int r = 0; r < COUNT; r++) {
                    const int8_t * values = batch.values + (r * blocks + b + at) * WIDTH + group * GROUP;
                    const __m256i pairs = _mm256_maddubs_epi16(w, _mm256_loadu_si256((const __m256i *) values));
                    some[r] = _mm256_add_epi32(some[r], _mm256_madd_epi16(pairs, scale));
                }
            }
            for (int r = 0; r < COUNT; r++) of_rows[r][row] = some[r];
        }
        for (int r = 0; r < COUNT; r++) of_blocks[r][i] = sums_of_halves(of_rows[r]);
    }
    for (int r = 0; r < COUNT; r++) {
        sums[r] = add_halves(of_blocks[r][0], of_blocks[r][1]);
        if constexpr (Of::HAS_MINIMUM) minima[r] = sums_of_halves((const __m256i *) of_minima[r]);
    }
}

}  // namespace
