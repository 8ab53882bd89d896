// GEMM of f32 weights and a batch of f32 rows, for x86 with AVX2 or AVX-512.
//
// ggml's sgemm.cpp sums across lanes for each result, and reads the weights again for every few rows. Here, as in BLIS, rows of
// weights are packed into panels, and no sum goes across lanes. A single row is packed for, too: its time is that of reading the
// weights, which are prefetched a block ahead.
//
// A result is the sum of its products in the order of the columns. It depends neither on the rest of the batch nor on columns in
// which the row has zeros: mean pooling is a product with rows that are 0 for the tokens of other texts.

#include "ggml-cpu-impl.h"
#include "panels.h"

#if defined(LOOKOUT_SIMD)

#include <algorithm>

namespace {

/** Columns of a cache block: a panel and some rows of the batch stay in L1. */
constexpr int64_t BLOCK_COLUMNS = 128;
/** Floats in a cache line. */
constexpr int64_t LINE_F32 = CACHE_LINE / sizeof(float);

#if defined(LOOKOUT_AVX512)
inline Floats unpack_low_32(Floats a, Floats b) { return _mm512_unpacklo_ps(a, b); }
inline Floats unpack_high_32(Floats a, Floats b) { return _mm512_unpackhi_ps(a, b); }
inline Floats unpack_low_64(Floats a, Floats b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
inline Floats unpack_high_64(Floats a, Floats b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
/** Stores the columns of all rows, given columns 4 apart from four rows in each vector. */
inline void store_columns(const Floats * x, float * panel) {
    const auto even = [](Floats a, Floats b) { return _mm512_shuffle_f32x4(a, b, 0x88); };
    const auto odd = [](Floats a, Floats b) { return _mm512_shuffle_f32x4(a, b, 0xdd); };
    const Floats a = even(x[0], x[4]), b = even(x[8], x[12]), c = odd(x[0], x[4]), d = odd(x[8], x[12]);
    store(panel, even(a, b));
    store(panel + 4 * PANEL_WIDTH, even(c, d));
    store(panel + 8 * PANEL_WIDTH, odd(a, b));
    store(panel + 12 * PANEL_WIDTH, odd(c, d));
}
#else
inline Floats unpack_low_32(Floats a, Floats b) { return _mm256_unpacklo_ps(a, b); }
inline Floats unpack_high_32(Floats a, Floats b) { return _mm256_unpackhi_ps(a, b); }
inline Floats unpack_low_64(Floats a, Floats b) {
    return _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
inline Floats unpack_high_64(Floats a, Floats b) {
    return _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)));
}
inline void store_columns(const Floats * x, float * panel) {
    store(panel, _mm256_permute2f128_ps(x[0], x[4], 0x20));
    store(panel + 4 * PANEL_WIDTH, _mm256_permute2f128_ps(x[0], x[4], 0x31));
}
#endif

/**
 * Transposes up to LANES f32 of each of LANES rows. It reads them at once: where rows are a multiple of 4 KiB apart, their cache
 * lines are all in one set of L1, which does not hold them.
 */
[[gnu::always_inline]] inline void transpose(const float * const * rows, int64_t at, int64_t count, float * panel) {
    Floats x[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) x[i] = load_partial(rows[i] + at, count);
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        const Floats a = unpack_low_32(x[i], x[i + 1]), b = unpack_low_32(x[i + 2], x[i + 3]);
        const Floats c = unpack_high_32(x[i], x[i + 1]), d = unpack_high_32(x[i + 2], x[i + 3]);
        x[i] = unpack_low_64(a, b);
        x[i + 1] = unpack_high_64(a, b);
        x[i + 2] = unpack_low_64(c, d);
        x[i + 3] = unpack_high_64(c, d);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) store_columns(x + i, panel + i * PANEL_WIDTH);
}

/**
 * Packs up to PANEL_WIDTH rows of f32 into a panel: row c becomes column c.
 * @param count rows; the last one is repeated in the remaining columns.
 * @param panel receives `width` rows, rounded up to a multiple of LANES.
 */
inline void pack_panel(const float * first, int64_t stride, int64_t count, int64_t width, float * panel) {
    const float * rows[PANEL_WIDTH];
    for (int64_t row = 0; row < PANEL_WIDTH; row++) rows[row] = first + std::min(row, count - 1) * stride;
    for (int64_t at = 0; at < width; at += LANES) {
        for (int64_t half = 0; half < PANEL_WIDTH; half += LANES) {
            float * to = panel + at * PANEL_WIDTH + half;
            if (at + LANES <= width) transpose(rows + half, at, LANES, to);
            else transpose(rows + half, at, width - at, to);
        }
    }
}

/**
 * Prefetches the block of weights that is packed next while this one is multiplied: the hardware does not prefetch short runs of
 * 32 rows, and reading them from memory takes as long as multiplying a few rows.
 */
template <int LINES> struct NextBlock {
    const float * weights;
    int64_t stride;
    /** Cache lines that earlier rows of the batch have prefetched. */
    int64_t lines;

    void operator()(int64_t i) const {
#pragma GCC unroll 2
        for (int n = 0; n < LINES; n++) {
            const int64_t line = lines + i * LINES + n;
            const float * from = weights + line % PANEL_WIDTH * stride + line / PANEL_WIDTH * LINE_F32;
            _mm_prefetch((const char *) from, _MM_HINT_T1);
        }
    }
};

}  // namespace

/**
 * `out` = `rows` `weights`^T.
 * @param m rows of weights. @param n rows of the batch. @param k columns of both.
 * @param out [row of the batch][row of weights]
 * @return false where the processor lacks AVX2.
 */
extern "C" bool lookout_gemm_f32(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const float * weights,
                                 int64_t weights_stride, const float * rows, int64_t rows_stride, float * out,
                                 int64_t out_stride) {
    static thread_local AlignedBuffer<float> panel_buffer, edge_buffer;
    float ones[MICRO_ROWS];
    std::fill(ones, ones + MICRO_ROWS, 1.0f);
    float * panel = panel_buffer.reserve(BLOCK_COLUMNS * PANEL_WIDTH);
    // A panel that is not full has results of its own, because the micro-kernel stores whole vectors.
    const int64_t edge = m / PANEL_WIDTH * PANEL_WIDTH;
    float * edge_out = edge < m ? edge_buffer.reserve(n * PANEL_WIDTH) : nullptr;
    // Register blocks of about equal size.
    const int64_t blocks = (n + MICRO_ROWS - 1) / MICRO_ROWS;
    const int64_t block_rows = (n + blocks - 1) / blocks;
    const auto gemm_rows = [&](int64_t at) {
        const int64_t count = std::min<int64_t>(PANEL_WIDTH, m - at);
        const int64_t to_stride = at == edge ? PANEL_WIDTH : out_stride;
        float * to = at == edge ? edge_out : out + at;
        for (int64_t from = 0; from < k; from += BLOCK_COLUMNS) {
            const int64_t width = std::min(BLOCK_COLUMNS, k - from);
            const float * block = weights + at * weights_stride + from;
            const bool is_last = from + BLOCK_COLUMNS >= k;
            const float * next = is_last ? weights + (at + PANEL_WIDTH) * weights_stride : block + BLOCK_COLUMNS;
            pack_panel(block, weights_stride, count, width, panel);
            // As many lines as two micro-kernels have columns.
            for (int64_t row = 0, lines = 0; row < n; row += block_rows, lines += width) {
                const auto multiply = [&](const auto & ahead) {
                    gemm_panel(std::min(block_rows, n - row), rows + row * rows_stride + from, rows_stride, panel, width,
                               from == 0 ? nullptr : ones, to + row * to_stride, to_stride, ahead);
                };
                if (blocks == 1) multiply(NextBlock<2>{next, weights_stride, 0});
                else if (lines < 2 * width) multiply(NextBlock<1>{next, weights_stride, lines});
                else multiply(NothingAhead{});
            }
        }
        if (at != edge) return;
        for (int64_t row = 0; row < n; row++) {
            std::memcpy(out + row * out_stride + edge, edge_out + row * PANEL_WIDTH, count * sizeof(float));
        }
    };
    parallel_rows(params, m, m * n * k * (int64_t) sizeof(float), PANEL_WIDTH, PANEL_WIDTH, [&](int64_t first, int64_t end) {
        for (; first < end; first += PANEL_WIDTH) gemm_rows(first);
    });
    return true;
}

#else

extern "C" bool lookout_gemm_f32(const ggml_compute_params *, int64_t, int64_t, int64_t, const float *, int64_t, const float *,
                                 int64_t, float *, int64_t) {
    return false;
}

#endif
