// Micro-kernels of attention over a KV cache: dot products of queries and keys, weighted sums of values, dequantisation, masks.
// See attention.h.
#pragma once

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml-cpu-impl.h"

#include "floats.h"
#include "micro-kernel.h"

#include <algorithm>
#include <cmath>

#if defined(LOOKOUT_SIMD)
#define LOOKOUT_ATTENTION

/**
 * Write stamps of the cells of `k`: the higher, the later the cell was written. Null where cells are in index order, or are no
 * KV cache's.
 */
extern "C" const uint64_t * lookout_cell_stamps(const ggml_tensor * k);

namespace {

/** Mask value of a cell that a row does not attend to: minus infinity in f16. */
constexpr ggml_fp16_t MASKED = 0xFC00;
/** Cells of a block. */
constexpr int BLOCK_CELLS = 16;
/** Cells whose mask is tested at once, to skip them. For a short prompt beside a long one, that is most of the cache. */
constexpr int SKIP_CELLS = 8 * BLOCK_CELLS;
/** Maximum elements of a head's key or value: those of multi-head latent attention have the most. */
constexpr int MAX_HEAD_SIZE = 576;
/** Maximum blocks that are dequantised together. */
constexpr int MAX_BLOCKS = 4;
/** Prefetch distance in cells. */
constexpr int64_t PREFETCH_CELLS = 3 * BLOCK_CELLS;
/** Register block: queries that are multiplied with a key or value while it is in a register. */
#if defined(LOOKOUT_AVX512)
constexpr int REGISTER_QUERIES = 4;
#else
constexpr int REGISTER_QUERIES = 2;
#endif

/** Register block: keys whose dot products with a query are reduced together. */
constexpr int REGISTER_CELLS = 4;

/** Partial dot products of REGISTER_CELLS keys, reduced over some of the lanes. `finish_reduce` reduces the rest for a block. */
#if defined(LOOKOUT_AVX512)
using PartialSums = Floats;
inline PartialSums reduce_partly(Floats a, Floats b, Floats c, Floats d) {
    const __m512d ab = _mm512_castps_pd(add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    const __m512d cd = _mm512_castps_pd(add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    return add(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}
inline void finish_reduce(const PartialSums * sums, float * out) {
    const auto pairs = [](Floats a, Floats b) { return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); };
    store(out, pairs(pairs(sums[0], sums[1]), pairs(sums[2], sums[3])));
}
#else
using PartialSums = __m128;
inline PartialSums reduce_partly(Floats a, Floats b, Floats c, Floats d) {
    const Floats pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}
inline void finish_reduce(const PartialSums * sums, float * out) {
    for (int i = 0; i < BLOCK_CELLS / REGISTER_CELLS; i++) _mm_storeu_ps(out + i * REGISTER_CELLS, sums[i]);
}
#endif

/** The scores of a query with the cells of a block. */
using BlockScores = float[BLOCK_CELLS];

// The accumulators of these micro-kernels stay in registers only when they are inlined: hence always_inline.

/**
 * QK^T: `scores[n][c]` = queries[n] . keys[c] for N queries and a block of keys. The position of a key in the block makes no
 * difference.
 */
template <int N>
[[gnu::always_inline]] inline void dot(const float * const * queries, const float * keys, int64_t width, BlockScores * scores) {
    PartialSums sums[N][BLOCK_CELLS / REGISTER_CELLS];
    for (int first = 0; first < BLOCK_CELLS; first += REGISTER_CELLS) {
        const float * rows = keys + first * width;
        Floats products[N][REGISTER_CELLS];
        for (int n = 0; n < N; n++) {
            for (int c = 0; c < REGISTER_CELLS; c++) products[n][c] = broadcast(0.0f);
        }
        for (int64_t d = 0; d < width; d += LANES) {
            Floats q[N];
            for (int n = 0; n < N; n++) q[n] = pin_register(load(queries[n] + d));
            for (int c = 0; c < REGISTER_CELLS; c++) {
                const Floats key = pin_register(load(rows + c * width + d));
                for (int n = 0; n < N; n++) products[n][c] = fma(q[n], key, products[n][c]);
            }
        }
        for (int n = 0; n < N; n++) {
            sums[n][first / REGISTER_CELLS] = reduce_partly(products[n][0], products[n][1], products[n][2], products[n][3]);
        }
    }
    for (int n = 0; n < N; n++) finish_reduce(sums[n], scores[n]);
}

/** Some of the dequantised blocks, in order. */
struct BlockList {
    int count;
    int indices[MAX_BLOCKS];
    int cells[MAX_BLOCKS];

    bool operator==(const BlockList & other) const {
        return count == other.count && std::equal(indices, indices + count, other.indices);
    }
};

/** The softmax weights of a query, for the cells of each block. */
using Weights = const float * [MAX_BLOCKS];

/** `accumulate_values` for VECTORS vectors of the head size. */
template <int N, int VECTORS>
[[gnu::always_inline]] inline void accumulate_vectors(float * const * out, const Weights * weights, const float * values,
                                                      const BlockList & blocks, int64_t width) {
    Floats sums[N][VECTORS];
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) sums[n][i] = load(out[n] + i * LANES);
    }
    for (int r = 0; r < blocks.count; r++) {
        const float * rows = values + blocks.indices[r] * BLOCK_CELLS * width;
        const float * of_run[N];
        for (int n = 0; n < N; n++) of_run[n] = weights[n][r];
        for (int c = 0; c < blocks.cells[r]; c++) {
            Floats value[VECTORS];
            for (int i = 0; i < VECTORS; i++) value[i] = pin_register(load(rows + c * width + i * LANES));
            for (int n = 0; n < N; n++) {
                const Floats weight = broadcast(of_run[n][c]);
                for (int i = 0; i < VECTORS; i++) sums[n][i] = fma(weight, value[i], sums[n][i]);
            }
        }
    }
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) store(out[n] + i * LANES, sums[n][i]);
    }
}

/** PV: adds weights[n][r][c] * values[r][c] to `out[n]`, cell by cell, for N queries. */
template <int N>
[[gnu::always_inline]] inline void accumulate_values(float * const * out, const Weights * weights, const float * values,
                                                     const BlockList & blocks, int64_t width) {
    float * at[N];
    for (int n = 0; n < N; n++) at[n] = out[n];
    int64_t d = 0;
    const auto step = [&](int vectors) {
        for (int n = 0; n < N; n++) at[n] += vectors * LANES;
        d += vectors * LANES;
    };
    for (; N == 1 && d + 8 * LANES <= width; step(8)) accumulate_vectors<N, 8>(at, weights, values + d, blocks, width);
    for (; d + 4 * LANES <= width; step(4)) accumulate_vectors<N, 4>(at, weights, values + d, blocks, width);
    for (; d < width; step(1)) accumulate_vectors<N, 1>(at, weights, values + d, blocks, width);
}

inline void f16_to_f32(const char * row, int64_t width, float * out) {
    const auto * f16s = (const ggml_fp16_t *) row;
    for (int64_t d = 0; d < width; d += LANES) store(out + d, load_f16(f16s + d));
}

inline void dequantize_q8_0(const char * row, int64_t width, float * out) {
    const auto * blocks = (const block_q8_0 *) row;
    for (int64_t b = 0; b < width / QK8_0; b++) {
        const Floats scale = broadcast(_cvtsh_ss(blocks[b].d));
        for (int d = 0; d < QK8_0; d += LANES) store(out + b * QK8_0 + d, multiply(scale, load_i8(blocks[b].qs + d)));
    }
}

/** Whether keys or values are contiguous rows of f16 or Q8_0, of a supported size. */
inline bool is_supported_type(const ggml_tensor * cells) {
    if (cells->ne[0] > MAX_HEAD_SIZE) return false;
    if (cells->type == GGML_TYPE_F16) return cells->ne[0] % 16 == 0 && cells->nb[0] == sizeof(ggml_fp16_t);
    return cells->type == GGML_TYPE_Q8_0 && cells->ne[0] % QK8_0 == 0 && cells->nb[0] == sizeof(block_q8_0);
}

/**
 * Prefetches a row. The rows of a head lie too far apart for the hardware prefetcher.
 */
inline void prefetch(const char * row, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T1);
}

/** Bytes of a head's key or value. */
inline int64_t row_bytes(const ggml_tensor * cells) {
    return cells->type == GGML_TYPE_F16 ? cells->ne[0] * sizeof(ggml_fp16_t) : cells->ne[0] / QK8_0 * sizeof(block_q8_0);
}

/** Dequantises the keys or values of some cells of a head. */
inline void dequantize_cells(const ggml_tensor * cells, const char * head, int count, const int32_t * numbers, float * out) {
    const int64_t width = cells->ne[0];
    const int64_t bytes = row_bytes(cells);
    const bool is_f16 = cells->type == GGML_TYPE_F16;
    for (int c = 0; c < count; c++) {
        const char * row = head + numbers[c] * cells->nb[1];
        prefetch(row + PREFETCH_CELLS * cells->nb[1], bytes);
        if (is_f16) f16_to_f32(row, width, out + c * width);
        else dequantize_q8_0(row, width, out + c * width);
    }
}

/** The cells of a block that are not masked: a bit for each. */
inline uint32_t unmasked_bits(const ggml_fp16_t * mask) {
    const __m256i minus_infinity = _mm256_set1_epi16((short) MASKED);
    const __m256i masked = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) mask), minus_infinity);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(masked), _mm256_extracti128_si256(masked, 1));
    return ~_mm_movemask_epi8(bytes) & 0xFFFF;
}

/** Whether all of SKIP_CELLS cells are masked. */
inline bool is_fully_masked(const ggml_fp16_t * mask) {
    const __m256i minus_infinity = _mm256_set1_epi16((short) MASKED);
    __m256i masked = _mm256_set1_epi16(-1);
    for (int c = 0; c < SKIP_CELLS; c += 16) {
        masked = _mm256_and_si256(masked, _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (mask + c)), minus_infinity));
    }
    return _mm256_movemask_epi8(masked) == -1;
}

}  // namespace

#endif
