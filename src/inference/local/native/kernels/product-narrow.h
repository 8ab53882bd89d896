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
 * Eight rows of weights: bytes, and for each unit a scale and a minimum for each lane. A vector holds four neighbouring
 * weights of each row: unsigned bytes, but signed ones where the processor multiplies pairs and those would not fit.
 */
struct Panel {
    Buffer<uint8_t> bytes_memory;
    Buffer<float> scales_memory, minima_memory;
    uint8_t * bytes;
    float * scales;
    float * minima;

    /** @param count rows that there are, from 1 to LANES; the last one fills the others. */
    template <typename Block> void read(const Block * weights, int64_t stride, int64_t count, int64_t blocks) {
        using Of = Type<Block>;
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        bytes = bytes_memory.of(blocks * Of::GROUPS * GROUP * LANES);
        scales = scales_memory.of(blocks * UNITS * LANES);
        minima = minima_memory.of(Of::HAS_MINIMUM ? blocks * UNITS * LANES : 0);
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
            if constexpr (UNITS == 1) {
                for (int lane = 0; lane < LANES; lane++) scales[b * LANES + lane] = single(rows[lane][b].d);
            } else {
                __m256 scale[LANES][UNITS / 8];
                __m256 minimum[LANES];
                for (int lane = 0; lane < LANES; lane++) Of::scales(rows[lane][b], scale[lane], minimum + lane);
                for (int part = 0; part < UNITS / 8; part++) {
                    for (int lane = 0; lane < LANES; lane++) lanes[lane] = _mm256_castps_si256(scale[lane][part]);
                    transpose(lanes, (__m256i *) (scales + (b * UNITS + 8 * part) * LANES));
                }
                if constexpr (Of::HAS_MINIMUM) transpose((const __m256i *) minimum, (__m256i *) (minima + b * UNITS * LANES));
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
    const int64_t units = width / Of::UNIT;
    const float * scales = batch.scales + row * units;
    const int32_t * zeros = batch.zeros + row * units;
    const float * row_sums = batch.sums + row * units;
    const int8_t * values = batch.values + row * width;
    __m256 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm256_setzero_ps();
    for (int64_t u = 0; u < units; u++) {
        __m256i sums[COUNT];
        const __m256i * weights = (const __m256i *) (panel.bytes + u * Of::UNIT * LANES);
        sum_unit<Of, COUNT>(weights, values + u * Of::UNIT, width, zeros + u * TOGETHER, sums);
        const __m256 scale = _mm256_load_ps(panel.scales + u * LANES);
        for (int r = 0; r < COUNT; r++) {
            const __m256 both = _mm256_mul_ps(scale, _mm256_broadcast_ss(scales + u * TOGETHER + r));
            totals[r] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(sums[r]), totals[r]);
        }
        if constexpr (Of::HAS_MINIMUM) {
            const __m256 minimum = _mm256_load_ps(panel.minima + u * LANES);
            for (int r = 0; r < COUNT; r++) {
                totals[r] = _mm256_fnmadd_ps(minimum, _mm256_broadcast_ss(row_sums + u * TOGETHER + r), totals[r]);
            }
        }
    }
    const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t) count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (int r = 0; r < COUNT; r++) _mm256_maskstore_ps(out + r * stride, there, totals[r]);
}

/**
 * Up to so many rows, a panel costs more than it saves. Where a block has one scale, ggml's own code is faster for a single
 * row.
 */
template <typename Of> constexpr int FEW = Of::GROUPS > 1 ? 8 : 0;

/** The scale of each sum of two neighbouring weights of a group. */
template <typename Of> inline __m256i scales_of(__m128i all, int group) {
    const int first = group * GROUP / Of::UNIT;
    const int last = Of::UNIT == GROUP ? first : first + 1;
    const __m128i lanes = _mm_set_epi64x(last * 0x0101010101010101, first * 0x0101010101010101);
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(all, lanes));
}

inline float sum_of_lanes(__m256 x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/** The products of one row of weights and COUNT rows of the batch. */
template <typename Block, int COUNT>
inline void dot(const Block * weights, const Batch<TOGETHER> & batch, int64_t blocks, float * out, int64_t stride) {
    using Of = Type<Block>;
    constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
    constexpr int WIDTH = Of::GROUPS * GROUP;
    static_assert(Of::LARGEST <= 127, "a sum of two products must fit into 16 bits");
    const int64_t width = blocks * WIDTH;
    __m256 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm256_setzero_ps();
    for (int64_t b = 0; b < blocks; b++) {
        _mm_prefetch((const char *) (weights + b) + 1024, _MM_HINT_T0);
        _mm_prefetch((const char *) (weights + b) + 1024 + LINE, _MM_HINT_T0);
        const __m128i scales = Of::whole_scales(weights[b]);
        __m256i sums[COUNT];
        for (int r = 0; r < COUNT; r++) sums[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
        for (int group = 0; group < Of::GROUPS; group++) {
            const __m256i w = Of::bytes(weights[b], group);
            const __m256i scale = scales_of<Of>(scales, group);
            for (int r = 0; r < COUNT; r++) {
                const int8_t * values = batch.values + r * width + b * WIDTH + group * GROUP;
                const __m256i pairs = _mm256_maddubs_epi16(w, _mm256_loadu_si256((const __m256i *) values));
                sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(pairs, scale));
            }
        }
        const __m256 whole = _mm256_set1_ps(single(weights[b].d));
        for (int r = 0; r < COUNT; r++) {
            const __m256 both = _mm256_mul_ps(whole, _mm256_broadcast_ss(batch.row_scales + r * blocks + b));
            totals[r] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(sums[r]), totals[r]);
        }
        // What each unit's values add for the zero point or the minimum of its weights.
        const float * row_sums = batch.row_sums + b * UNITS;
        if constexpr (Of::HAS_MINIMUM) {
            const __m256 minima = Of::minima(weights[b]);
            for (int r = 0; r < COUNT; r++) {
                totals[r] = _mm256_fnmadd_ps(minima, _mm256_loadu_ps(row_sums + r * blocks * UNITS), totals[r]);
            }
        } else {
            const __m256 zero = _mm256_mul_ps(whole, _mm256_set1_ps((float) Of::ZERO));
            for (int half = 0; half < UNITS / 8; half++) {
                const __m128i eight = half == 0 ? scales : _mm_unpackhi_epi64(scales, scales);
                const __m256 zeros = _mm256_mul_ps(zero, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
                for (int r = 0; r < COUNT; r++) {
                    const __m256 of_units = _mm256_loadu_ps(row_sums + r * blocks * UNITS + 8 * half);
                    totals[r] = _mm256_fnmadd_ps(zeros, of_units, totals[r]);
                }
            }
        }
    }
    for (int r = 0; r < COUNT; r++) out[r * stride] = sum_of_lanes(totals[r]);
}

}  // namespace
