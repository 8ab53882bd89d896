// Products of rows of f32 with panels, for x86 with AVX2 or AVX-512.
//
// A panel is a matrix of which each row fills two vectors. A row of the other factor is multiplied with it one value at a
// time, in all lanes, so no sum goes across lanes. Some rows are multiplied together, and their sums stay in registers.

#pragma once

#include "floats.h"

#if defined(LOOKOUT_FLOATS)

#include <algorithm>
#include <cstring>
#include <vector>

extern "C" void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
extern "C" int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);

namespace {

/** Numbers in a row of a panel. */
constexpr int PANEL = 2 * LANES;
/** Rows that are multiplied together: two vectors of sums for each leave some of 32 or 16 registers free. */
constexpr int TOGETHER = LANES == 16 ? 8 : 6;

/** Memory of a thread that grows, aligned to lines of the caches. */
template <typename Number> struct Scratch {
    std::vector<char> memory;

    Number * of(int64_t numbers) {
        constexpr size_t LINE = 64;
        const size_t bytes = numbers * sizeof(Number) + LINE;
        if (memory.size() < bytes) memory.resize(bytes);
        return (Number *) (((uintptr_t) memory.data() + LINE - 1) / LINE * LINE);
    }
};

inline Floats as_floats(const float * from) { return load(from); }
inline Floats as_floats(const ggml_fp16_t * from) { return from_halves(from); }

/** `out` (ROWS x PANEL) = `out` * `kept` + `rows` (ROWS x height) * `panel` (height x PANEL); `kept` is one for each row. */
template <int ROWS, typename Number>
void multiply_rows(const float * rows, int64_t rows_stride, const Number * panel, int64_t height, const float * kept,
                   float * out, int64_t out_stride) {
    Floats sums[ROWS][2];
    for (int r = 0; r < ROWS; r++) {
        for (int half = 0; half < 2; half++) {
            sums[r][half] = kept == nullptr ? all(0.0f) : multiply(all(kept[r]), load(out + r * out_stride + half * LANES));
        }
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < height; i++) {
        const Floats left = as_floats(panel + i * PANEL);
        const Floats right = as_floats(panel + i * PANEL + LANES);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            const Floats value = all(rows[r * rows_stride + i]);
            sums[r][0] = fma(value, left, sums[r][0]);
            sums[r][1] = fma(value, right, sums[r][1]);
        }
    }
    for (int r = 0; r < ROWS; r++) {
        store(out + r * out_stride, sums[r][0]);
        store(out + r * out_stride + LANES, sums[r][1]);
    }
}

/** The same for up to TOGETHER rows. @param kept null where `out` holds nothing yet. */
template <typename Number>
void multiply_panel(int64_t count, const float * rows, int64_t rows_stride, const Number * panel, int64_t height,
                           const float * kept, float * out, int64_t out_stride) {
    const auto with = [&](const auto & multiply) { multiply(rows, rows_stride, panel, height, kept, out, out_stride); };
    switch (count) {
        case 1: return with(multiply_rows<1, Number>);
        case 2: return with(multiply_rows<2, Number>);
        case 3: return with(multiply_rows<3, Number>);
        case 4: return with(multiply_rows<4, Number>);
        case 5: return with(multiply_rows<5, Number>);
        case 6: return with(multiply_rows<6, Number>);
#if defined(LOOKOUT_WIDE)
        case 7: return with(multiply_rows<7, Number>);
        default: return with(multiply_rows<8, Number>);
#endif
    }
}

#if defined(LOOKOUT_WIDE)
using Halves = __m512i;
/** Eight numbers of f16 of each of four rows. */
inline Halves gathered(const ggml_fp16_t * const * rows, int64_t at) {
    const auto eight = [&](int row) { return _mm_loadu_si128((const __m128i *) (rows[row] + at)); };
    const __m256i lower = _mm256_inserti128_si256(_mm256_castsi128_si256(eight(0)), eight(8), 1);
    const __m256i upper = _mm256_inserti128_si256(_mm256_castsi128_si256(eight(16)), eight(24), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}
inline void store(ggml_fp16_t * to, Halves x) { _mm512_storeu_si512(to, x); }
inline Halves low_16(Halves a, Halves b) { return _mm512_unpacklo_epi16(a, b); }
inline Halves high_16(Halves a, Halves b) { return _mm512_unpackhi_epi16(a, b); }
inline Halves low_32(Halves a, Halves b) { return _mm512_unpacklo_epi32(a, b); }
inline Halves high_32(Halves a, Halves b) { return _mm512_unpackhi_epi32(a, b); }
inline Halves low_64(Halves a, Halves b) { return _mm512_unpacklo_epi64(a, b); }
inline Halves high_64(Halves a, Halves b) { return _mm512_unpackhi_epi64(a, b); }
#else
using Halves = __m256i;
/** Eight numbers of f16 of each of two rows. */
inline Halves gathered(const ggml_fp16_t * const * rows, int64_t at) {
    const auto eight = [&](int row) { return _mm_loadu_si128((const __m128i *) (rows[row] + at)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(eight(0)), eight(8), 1);
}
inline void store(ggml_fp16_t * to, Halves x) { _mm256_storeu_si256((__m256i *) to, x); }
inline Halves low_16(Halves a, Halves b) { return _mm256_unpacklo_epi16(a, b); }
inline Halves high_16(Halves a, Halves b) { return _mm256_unpackhi_epi16(a, b); }
inline Halves low_32(Halves a, Halves b) { return _mm256_unpacklo_epi32(a, b); }
inline Halves high_32(Halves a, Halves b) { return _mm256_unpackhi_epi32(a, b); }
inline Halves low_64(Halves a, Halves b) { return _mm256_unpacklo_epi64(a, b); }
inline Halves high_64(Halves a, Halves b) { return _mm256_unpackhi_epi64(a, b); }
#endif

/** Turns eight numbers of each of PANEL rows into eight rows of a panel. */
inline void transpose(const ggml_fp16_t * const * rows, int64_t at, ggml_fp16_t * panel) {
    Halves x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = gathered(rows + i, at);
    for (int i = 0; i < 4; i++) {
        y[2 * i] = low_16(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = high_16(x[2 * i], x[2 * i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = low_32(y[i], y[i + 2]);
        x[i + 1] = high_32(y[i], y[i + 2]);
        x[i + 2] = low_32(y[i + 1], y[i + 3]);
        x[i + 3] = high_32(y[i + 1], y[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        store(panel + 2 * i * PANEL, low_64(x[i], x[i + 4]));
        store(panel + (2 * i + 1) * PANEL, high_64(x[i], x[i + 4]));
    }
}

/** Rows of a panel that `transpose` makes at once. */
constexpr int64_t COLUMNS = 8;

/**
 * Makes a panel of PANEL rows of f16: its column c is row c.
 * @param count rows that there are, from 1 to PANEL; the last one fills the other columns.
 * @param panel gets `height` rows, rounded up to COLUMNS.
 */
inline void panel_of_columns(const ggml_fp16_t * first, int64_t stride, int64_t count, int64_t height, ggml_fp16_t * panel) {
    const ggml_fp16_t * rows[PANEL];
    for (int64_t row = 0; row < PANEL; row++) rows[row] = first + std::min(row, count - 1) * stride;
    const int64_t whole = height / COLUMNS * COLUMNS;
    for (int64_t at = 0; at < whole; at += COLUMNS) transpose(rows, at, panel + at * PANEL);
    if (whole == height) return;
    ggml_fp16_t rest[PANEL][COLUMNS] = {};
    for (int64_t row = 0; row < PANEL; row++) {
        memcpy(rest[row], rows[row] + whole, (height - whole) * sizeof(ggml_fp16_t));
        rows[row] = rest[row];
    }
    transpose(rows, 0, panel + whole * PANEL);
}

/** A panel as f32. */
inline void to_floats(const ggml_fp16_t * panel, int64_t height, float * to) {
    for (int64_t i = 0; i < height * PANEL; i += LANES) store(to + i, from_halves(panel + i));
}

}  // namespace

#endif
