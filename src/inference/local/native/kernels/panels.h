// GEMM of f32 rows with packed panels, for x86 with AVX2 or AVX-512.
//
// As in BLIS, a panel is a matrix packed so that each of its rows fills two vectors. The micro-kernel broadcasts one element of
// a row at a time, so no sum goes across lanes, and keeps the accumulators of several rows in registers.

#pragma once

#include "floats.h"
#include "micro-kernel.h"

#if defined(LOOKOUT_SIMD)

#include <algorithm>
#include <cstring>

namespace {

/** Columns of a panel. */
constexpr int PANEL_WIDTH = 2 * LANES;
/** Rows of the micro-kernel's register block. Two accumulators for each leave some of the 32 or 16 registers free. */
constexpr int MICRO_ROWS = LANES == 16 ? 8 : 6;

inline Floats load_f32(const float * from) { return load(from); }
inline Floats load_f32(const ggml_fp16_t * from) { return load_f16(from); }

/** For a micro-kernel that fetches nothing. */
struct NothingAhead {
    void operator()(int64_t) const {}
};

/**
 * Micro-kernel: `out` = diag(`rescale`) `out` + `rows` `panel`, where `out` is ROWS x PANEL_WIDTH, `rows` ROWS x height and
 * `panel` height x PANEL_WIDTH. Without `rescale`, `out` is overwritten. `ahead` is called with each row of the panel, and may
 * prefetch what comes next.
 */
template <int ROWS, typename Element, typename Ahead>
void micro_kernel(const float * rows, int64_t rows_stride, const Element * panel, int64_t height, const float * rescale,
                  float * out, int64_t out_stride, const Ahead & ahead) {
    Floats sums[ROWS][2];
    for (int r = 0; r < ROWS; r++) {
        for (int half = 0; half < 2; half++) {
            sums[r][half] = rescale == nullptr
                ? broadcast(0.0f)
                : multiply(broadcast(rescale[r]), load(out + r * out_stride + half * LANES));
        }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < height; i++) {
        ahead(i);
        const Floats low = load_f32(panel + i * PANEL_WIDTH);
        const Floats high = load_f32(panel + i * PANEL_WIDTH + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats a = broadcast(rows[r * rows_stride + i]);
            sums[r][0] = fma(a, low, sums[r][0]);
            sums[r][1] = fma(a, high, sums[r][1]);
        }
    }
    for (int r = 0; r < ROWS; r++) {
        store(out + r * out_stride, sums[r][0]);
        store(out + r * out_stride + LANES, sums[r][1]);
    }
}

/** The micro-kernel for 1 to MICRO_ROWS rows. */
template <typename Element, typename Ahead = NothingAhead>
void gemm_panel(int64_t count, const float * rows, int64_t rows_stride, const Element * panel, int64_t height,
                const float * rescale, float * out, int64_t out_stride, const Ahead & ahead = {}) {
    with_constant<MICRO_ROWS>(count, [&](auto constant) {
        micro_kernel<constant>(rows, rows_stride, panel, height, rescale, out, out_stride, ahead);
    });
}

#if defined(LOOKOUT_AVX512)
using F16Vector = __m512i;
/** Eight f16 of each of four rows. */
inline F16Vector gather_8(const ggml_fp16_t * const * rows, int64_t at) {
    const auto eight = [&](int row) { return _mm_loadu_si128((const __m128i *) (rows[row] + at)); };
    const __m256i lower = _mm256_inserti128_si256(_mm256_castsi128_si256(eight(0)), eight(8), 1);
    const __m256i upper = _mm256_inserti128_si256(_mm256_castsi128_si256(eight(16)), eight(24), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}
inline void store(ggml_fp16_t * to, F16Vector x) { _mm512_storeu_si512(to, x); }
inline F16Vector unpack_low_16(F16Vector a, F16Vector b) { return _mm512_unpacklo_epi16(a, b); }
inline F16Vector unpack_high_16(F16Vector a, F16Vector b) { return _mm512_unpackhi_epi16(a, b); }
inline F16Vector unpack_low_32(F16Vector a, F16Vector b) { return _mm512_unpacklo_epi32(a, b); }
inline F16Vector unpack_high_32(F16Vector a, F16Vector b) { return _mm512_unpackhi_epi32(a, b); }
inline F16Vector unpack_low_64(F16Vector a, F16Vector b) { return _mm512_unpacklo_epi64(a, b); }
inline F16Vector unpack_high_64(F16Vector a, F16Vector b) { return _mm512_unpackhi_epi64(a, b); }
#else
using F16Vector = __m256i;
/** Eight f16 of each of two rows. */
inline F16Vector gather_8(const ggml_fp16_t * const * rows, int64_t at) {
    const auto eight = [&](int row) { return _mm_loadu_si128((const __m128i *) (rows[row] + at)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(eight(0)), eight(8), 1);
}
inline void store(ggml_fp16_t * to, F16Vector x) { _mm256_storeu_si256((__m256i *) to, x); }
inline F16Vector unpack_low_16(F16Vector a, F16Vector b) { return _mm256_unpacklo_epi16(a, b); }
inline F16Vector unpack_high_16(F16Vector a, F16Vector b) { return _mm256_unpackhi_epi16(a, b); }
inline F16Vector unpack_low_32(F16Vector a, F16Vector b) { return _mm256_unpacklo_epi32(a, b); }
inline F16Vector unpack_high_32(F16Vector a, F16Vector b) { return _mm256_unpackhi_epi32(a, b); }
inline F16Vector unpack_low_64(F16Vector a, F16Vector b) { return _mm256_unpacklo_epi64(a, b); }
inline F16Vector unpack_high_64(F16Vector a, F16Vector b) { return _mm256_unpackhi_epi64(a, b); }
#endif

/** Transposes eight f16 of each of PANEL_WIDTH rows into eight rows of a panel. */
inline void transpose(const ggml_fp16_t * const * rows, int64_t at, ggml_fp16_t * panel) {
    F16Vector x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = gather_8(rows + i, at);
    for (int i = 0; i < 4; i++) {
        y[2 * i] = unpack_low_16(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = unpack_high_16(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = unpack_low_32(y[i], y[i + 2]);
        x[i + 1] = unpack_high_32(y[i], y[i + 2]);
        x[i + 2] = unpack_low_32(y[i + 1], y[i + 3]);
        x[i + 3] = unpack_high_32(y[i + 1], y[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        store(panel + 2 * i * PANEL_WIDTH, unpack_low_64(x[i], x[i + 4]));
        store(panel + (2 * i + 1) * PANEL_WIDTH, unpack_high_64(x[i], x[i + 4]));
    }
}

/** Panel rows that one `transpose` writes. */
constexpr int64_t PACK_STEP = 8;

/**
 * Packs up to PANEL_WIDTH rows of f16 into a panel: row c becomes column c.
 * @param count rows, from 1 to PANEL_WIDTH; the last one is repeated in the remaining columns.
 * @param panel receives `height` rows, rounded up to a multiple of PACK_STEP.
 */
inline void pack_panel(const ggml_fp16_t * first, int64_t stride, int64_t count, int64_t height, ggml_fp16_t * panel) {
    const ggml_fp16_t * rows[PANEL_WIDTH];
    for (int64_t row = 0; row < PANEL_WIDTH; row++) rows[row] = first + std::min(row, count - 1) * stride;
    const int64_t whole = height / PACK_STEP * PACK_STEP;
    for (int64_t at = 0; at < whole; at += PACK_STEP) transpose(rows, at, panel + at * PANEL_WIDTH);
    if (whole == height) return;
    ggml_fp16_t rest[PANEL_WIDTH][PACK_STEP] = {};
    for (int64_t row = 0; row < PANEL_WIDTH; row++) {
        memcpy(rest[row], rows[row] + whole, (height - whole) * sizeof(ggml_fp16_t));
        rows[row] = rest[row];
    }
    transpose(rows, 0, panel + whole * PANEL_WIDTH);
}

/** Converts a panel to f32. */
inline void panel_to_f32(const ggml_fp16_t * panel, int64_t height, float * to) {
    for (int64_t i = 0; i < height * PANEL_WIDTH; i += LANES) store(to + i, load_f16(panel + i));
}

}  // namespace

#endif
