// Products on vectors of 64 bytes, for processors with AVX-512 VNNI. See product.cpp.
#pragma once

#include "product-batch.h"

namespace {

/** Rows of weights in a panel: lanes of a vector. */
constexpr int LANES = 16;
/** Rows of the batch that are computed together; their sums stay in registers. */
constexpr int TOGETHER = 8;
/** Panels that are multiplied with a row's values while these are in a register. With several scales, registers do not suffice for two. */
template <typename Of> constexpr int PANELS = Of::GROUPS > 1 ? 1 : 2;

/** Turns sixteen rows of eight elements into eight rows of sixteen; an element has four bytes. */
inline void transpose(const __m256i * rows, __m512i * out) {
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i upper = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    // Each vector holds a row in its lower half and the row eight below in its upper one.
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

/** Sixteen rows of weights: bytes, and scales and minima for each lane. */
struct Panel {
    Buffer<uint8_t> bytes_memory;
    Buffer<float> scales_memory, minimum_scales_memory;
    Buffer<int32_t> unit_scales_memory, minima_memory;
    Buffer<ggml_half> halves_memory;
    /** A vector holds four neighbouring weights of each row. */
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
        constexpr int HALVES = Of::HAS_MINIMUM ? 2 : 1;
        bytes = bytes_memory.of(blocks * Of::GROUPS * GROUP * LANES);
        scales = scales_memory.of(blocks * LANES);
        minimum_scales = minimum_scales_memory.of(Of::HAS_MINIMUM ? blocks * LANES : 0);
        unit_scales = unit_scales_memory.of(UNITS > 1 ? blocks * UNITS * LANES : 0);
        // A transposition writes as much again.
        minima = minima_memory.of(Of::HAS_MINIMUM ? (blocks + 1) * UNITS / 2 * LANES : 0);
        ggml_half * halves = halves_memory.of(HALVES * blocks * LANES);
        const Block * rows[LANES];
        for (int lane = 0; lane < LANES; lane++) rows[lane] = weights + std::min<int64_t>(lane, count - 1) * stride;
        // The rows of a panel follow each other in memory, but sixteen short streams are too many for the processor to
        // read ahead. So this asks for the next panel.
        const char * next = (const char *) (weights + LANES * stride);
        __m256i lanes[LANES];
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t first = b * LANES * sizeof(Block);
            for (int64_t at = first; at < first + LANES * (int64_t) sizeof(Block); at += LINE) {
                _mm_prefetch(next + at, _MM_HINT_T1);
            }
#pragma GCC unroll 8
            for (int group = 0; group < Of::GROUPS; group++) {
#pragma GCC unroll 16
                for (int lane = 0; lane < LANES; lane++) lanes[lane] = Of::bytes(rows[lane][b], group);
                uint8_t * to = bytes + (b * Of::GROUPS + group) * GROUP * LANES;
                transpose(lanes, (__m512i *) to);
            }
            for (int lane = 0; lane < LANES; lane++) {
                halves[b * LANES + lane] = rows[lane][b].d;
                if constexpr (Of::HAS_MINIMUM) halves[(blocks + b) * LANES + lane] = rows[lane][b].dmin;
            }
            if constexpr (UNITS > 1) {
                for (int part = 0; part < UNITS / 8; part++) {
                    for (int lane = 0; lane < LANES; lane++) {
                        const __m128i whole = Of::whole_scales(rows[lane][b]);
                        lanes[lane] = _mm256_cvtepi8_epi32(part == 0 ? whole : _mm_unpackhi_epi64(whole, whole));
                    }
                    transpose(lanes, (__m512i *) (unit_scales + (b * UNITS + 8 * part) * LANES));
                }
            }
            if constexpr (Of::HAS_MINIMUM) {
                for (int lane = 0; lane < LANES; lane++) {
                    const __m128i packed = _mm_cvtsi64_si128((int64_t) Of::packed_minima(rows[lane][b]));
                    lanes[lane] = _mm256_zextsi128_si256(_mm_cvtepu8_epi16(packed));
                }
                transpose(lanes, (__m512i *) (minima + b * UNITS / 2 * LANES));
            }
        }
        // Not block by block: the processor waits where it reads a vector of numbers that it has just stored one by one.
        for (int64_t b = 0; b < blocks; b++) {
            const auto at = [&](int64_t block) { return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) (halves + block * LANES))); };
            _mm512_store_ps(scales + b * LANES, at(b));
            if constexpr (Of::HAS_MINIMUM) _mm512_store_ps(minimum_scales + b * LANES, at(blocks + b));
        }
    }
};

inline __m512i four(const int8_t * values) {
    int32_t of;
    std::memcpy(&of, values, sizeof(of));
    return _mm512_set1_epi32(of);
}

/**
 * Adds the products of a unit of some panels and COUNT rows of the batch to `sums`.
 * @param at the unit's first weight. @param values of the rows, `width` for each.
 */
template <typename Of, int COUNT, int SOME>
inline void add_unit(const Panel * panels, int64_t at, const int8_t * values, int64_t width, __m512i (*sums)[COUNT]) {
#pragma GCC unroll 8
    for (int step = 0; step < Of::UNIT / 4; step++) {
        __m512i w[SOME];
        for (int p = 0; p < SOME; p++) {
            w[p] = kept_in_register(_mm512_load_si512((const __m512i *) (panels[p].bytes + at * LANES) + step));
        }
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512i v = four(values + r * width + at + 4 * step);
            if constexpr (SOME == 1) {
                sums[0][r] = _mm512_dpbusd_epi32(sums[0][r], w[0], v);
            } else {
                const __m512i once = kept_in_register(v);
                for (int p = 0; p < SOME; p++) sums[p][r] = _mm512_dpbusd_epi32(sums[p][r], w[p], once);
            }
        }
    }
}

/** The products of some panels, whose blocks have one scale each, and COUNT rows of the batch. */
template <typename Of, int COUNT, int SOME>
inline void multiply_of_one_scale(const Panel * panels, const Batch<TOGETHER> & batch, int64_t row, int64_t width,
                                  __m512 (*totals)[COUNT]) {
    const int64_t units = width / Of::UNIT;
    const float * scales = batch.scales + row * units;
    const int32_t * zeros = batch.zeros + row * units;
    for (int64_t u = 0; u < units; u++) {
        __m512i sums[SOME][COUNT];
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512i start = Of::ZERO == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(zeros[u * TOGETHER + r]);
            for (int p = 0; p < SOME; p++) sums[p][r] = start;
        }
        add_unit<Of, COUNT, SOME>(panels, u * Of::UNIT, batch.values + row * width, width, sums);
#pragma GCC unroll 2
        for (int p = 0; p < SOME; p++) {
            const __m512 scale = _mm512_load_ps(panels[p].scales + u * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(scales[u * TOGETHER + r]));
                totals[p][r] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(sums[p][r]), totals[p][r]);
            }
        }
    }
}

/** The same of a panel whose blocks have several scales. A block's sums are whole numbers until its own scale is applied. */
template <typename Of, int COUNT>
inline void multiply_of_scales(const Panel & panel, const Batch<TOGETHER> & batch, int64_t row, int64_t width, __m512 * totals) {
    constexpr int WIDTH = Of::GROUPS * GROUP, UNITS = WIDTH / Of::UNIT;
    const int64_t units = width / Of::UNIT;
    const float * scales = batch.scales + row * units;
    const int32_t * zeros = batch.zeros + row * units;
    const int32_t * sum_pairs = batch.sum_pairs + row * units / 2;
    for (int64_t b = 0; b < width / WIDTH; b++) {
        __m512i wholes[COUNT];
        for (int r = 0; r < COUNT; r++) wholes[r] = _mm512_setzero_si512();
        for (int64_t u = b * UNITS; u < (b + 1) * UNITS; u++) {
            __m512i sums[1][COUNT];
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                sums[0][r] = Of::ZERO == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(zeros[u * TOGETHER + r]);
            }
            add_unit<Of, COUNT, 1>(&panel, u * Of::UNIT, batch.values + row * width, width, sums);
            const __m512i scale = _mm512_load_si512(panel.unit_scales + u * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) wholes[r] = _mm512_add_epi32(wholes[r], _mm512_mullo_epi32(sums[0][r], scale));
        }
        const __m512 scale = _mm512_load_ps(panel.scales + b * LANES);
        const float * row_scales = scales + b * UNITS * TOGETHER;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
            const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(row_scales[r]));
            totals[r] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(wholes[r]), totals[r]);
        }
        if constexpr (Of::HAS_MINIMUM) {
            const __m512 minimum_scale = _mm512_load_ps(panel.minimum_scales + b * LANES);
            __m512i sums[COUNT];
            for (int r = 0; r < COUNT; r++) sums[r] = _mm512_setzero_si512();
            for (int64_t pair = b * UNITS / 2; pair < (b + 1) * UNITS / 2; pair++) {
                const __m512i two = _mm512_load_si512(panel.minima + pair * LANES);
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    sums[r] = _mm512_dpwssd_epi32(sums[r], two, _mm512_set1_epi32(sum_pairs[pair * TOGETHER + r]));
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const __m512 both = _mm512_mul_ps(minimum_scale, _mm512_set1_ps(row_scales[r]));
                totals[r] = _mm512_fnmadd_ps(both, _mm512_cvtepi32_ps(sums[r]), totals[r]);
            }
        }
    }
}

/**
 * The products of some panels and COUNT rows of the batch.
 * @param row the first of them, a multiple of TOGETHER. @param count rows of weights that the last panel has.
 */
template <typename Of, int COUNT, int SOME>
inline void multiply(const Panel * panels, const Batch<TOGETHER> & batch, int64_t row, int64_t width, float * out,
                     int64_t stride, int64_t count) {
    __m512 totals[SOME][COUNT];
#pragma GCC unroll 2
    for (int p = 0; p < SOME; p++) {
        for (int r = 0; r < COUNT; r++) totals[p][r] = _mm512_setzero_ps();
    }
    if constexpr (Of::GROUPS == 1) multiply_of_one_scale<Of, COUNT, SOME>(panels, batch, row, width, totals);
    else multiply_of_scales<Of, COUNT>(*panels, batch, row, width, totals[0]);
    const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
    for (int p = 0; p < SOME; p++) {
        const __mmask16 there = p == SOME - 1 ? lanes : (__mmask16) 0xffff;
        for (int r = 0; r < COUNT; r++) _mm512_mask_storeu_ps(out + r * stride + p * LANES, there, totals[p][r]);
    }
}

/** Up to so many rows, a panel costs more than it saves. */
template <typename Of> constexpr int FEW = Of::GROUPS > 1 ? 6 : 3;

/** For each sum of two neighbouring weights of 64, the place of its scale in a block; `part` is the place of the 64. */
template <typename Of> inline __m512i scale_places(int part) {
    const __m512i lane = _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11,
                                          10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi16(_mm512_srli_epi16(lane, Of::UNIT == GROUP ? 4 : 3), _mm512_set1_epi16(part * 64 / Of::UNIT));
}

/** Blocks of a row of weights that few rows are multiplied with at a time, those of four rows of weights. */
constexpr int FEW_BLOCKS = 4;
/** Whether few rows' sums lack what the weights' zero points add. */
template <typename Of> constexpr bool LACKS_ZEROS = Of::GROUPS == 1;

using Vector = __m512i;
using Numbers = __m512;
inline Numbers numbers(Vector whole) { return _mm512_cvtepi32_ps(whole); }
inline Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
inline Numbers times(Numbers a, Numbers b) { return _mm512_mul_ps(a, b); }
inline Numbers numbers_of_halves(const ggml_half * halves) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) halves)); }
/** Each of FEW_BLOCKS numbers four times. */
inline Vector four_times(const int32_t * numbers) {
    const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_epi32(places, _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) numbers)));
}
inline Numbers four_times(const float * numbers) { return _mm512_castsi512_ps(four_times((const int32_t *) numbers)); }
template <int BLOCK> inline __m128 of_block(Numbers x) { return _mm512_extractf32x4_ps(x, BLOCK); }

/** In each quarter of a vector the sums of those of four vectors. */
inline __m512i sums_of_quarters(const __m512i * x) {
    const auto add_twos = [](__m512i a, __m512i b) {
        return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    };
    const __m512i a = add_twos(x[0], x[1]), b = add_twos(x[2], x[3]);
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/** Adds each quarter to its neighbour. */
inline __m512i add_quarters(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/**
 * The sums of the products of FEW_BLOCKS blocks of four rows of weights, which have one scale each: [row of the batch][block][row].
 * @param from the blocks of each row. @param b the number of the first.
 */
template <typename Block, int COUNT>
inline void sum_blocks_of_one_scale(const Block * const * from, const Batch<TOGETHER> & batch, int64_t b,
                                    int64_t blocks, Vector * sums) {
    using Of = Type<Block>;
    __m512i of_two[COUNT][2][4];
#pragma GCC unroll 4
    for (int row = 0; row < 4; row++) {
        ask_ahead<FEW_BLOCKS>(from[row]);
#pragma GCC unroll 2
        for (int two = 0; two < 2; two++) {
            const Block * some = from[row] + 2 * two;
            const __m512i w = _mm512_inserti64x4(_mm512_castsi256_si512(Of::bytes(some[0], 0)), Of::bytes(some[1], 0), 1);
#pragma GCC unroll 4
            for (int r = 0; r < COUNT; r++) {
                const __m512i v = _mm512_loadu_si512(batch.values + (r * blocks + b + 2 * two) * GROUP);
                of_two[r][two][row] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, v);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < COUNT; r++) sums[r] = add_quarters(sums_of_quarters(of_two[r][0]), sums_of_quarters(of_two[r][1]));
}

/** The same where blocks have several scales, and the sums of their minima times the batch's values. */
template <typename Block, int COUNT>
inline void sum_blocks_of_scales(const Block * const * from, const Batch<TOGETHER> & batch, int64_t b,
                                 int64_t blocks, int64_t there, Vector * sums, Vector * minima) {
    using Of = Type<Block>;
    constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
    constexpr int WIDTH = Of::GROUPS * GROUP;
    static_assert(Of::LARGEST <= 127, "a sum of two products must fit into 16 bits");
    __m512i of_blocks[COUNT][FEW_BLOCKS];
    alignas(LINE) __m128i of_minima[COUNT][4][FEW_BLOCKS];
    for (int i = 0; i < FEW_BLOCKS; i++) {
        const int64_t at = std::min<int64_t>(i, there - 1);
        __m512i of_rows[COUNT][4];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            const Block & block = from[row][at];
            ask_ahead<1>(&block);
            const __m256i scales = _mm256_cvtepi8_epi16(Of::whole_scales(block));
            __m512i some[COUNT];
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) {
                const int16_t * of_units = batch.row_sums + (r * blocks + b + at) * UNITS;
                if constexpr (Of::HAS_MINIMUM) {
                    const __m128i bytes = _mm_cvtepu8_epi16(_mm_cvtsi64_si128((int64_t) Of::packed_minima(block)));
                    of_minima[r][row][i] = _mm_madd_epi16(bytes, _mm_loadu_si128((const __m128i *) of_units));
                }
                if constexpr (Of::ZERO == 0) {
                    some[r] = _mm512_setzero_si512();
                } else {
                    const __m256i zeros = _mm256_mullo_epi16(scales, _mm256_set1_epi16(-Of::ZERO));
                    some[r] = _mm512_zextsi256_si512(_mm256_madd_epi16(zeros, _mm256_loadu_si256((const __m256i *) of_units)));
                }
            }
#pragma GCC unroll 4
            for (int part = 0; part < WIDTH / 64; part++) {
                const __m512i w = _mm512_inserti64x4(
                    _mm512_castsi256_si512(Of::bytes(block, 2 * part)), Of::bytes(block, 2 * part + 1), 1);
                const __m512i scale = _mm512_permutexvar_epi16(scale_places<Of>(part), _mm512_castsi256_si512(scales));
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    const __m512i v = _mm512_loadu_si512(batch.values + (r * blocks + b + at) * WIDTH + 64 * part);
                    some[r] = _mm512_dpwssd_epi32(some[r], _mm512_maddubs_epi16(w, v), scale);
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) of_rows[r][row] = some[r];
        }
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) of_blocks[r][i] = sums_of_quarters(of_rows[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < COUNT; r++) {
        sums[r] = add_quarters(add_quarters(of_blocks[r][0], of_blocks[r][1]), add_quarters(of_blocks[r][2], of_blocks[r][3]));
        if constexpr (Of::HAS_MINIMUM) minima[r] = sums_of_quarters((const __m512i *) of_minima[r]);
    }
}

}  // namespace
