// GEMM of f32 weights and a batch of f32 rows, for x86 with AVX2 or AVX-512.
//
// ggml's sgemm.cpp sums across lanes for each result, and reads the weights again for every few rows. Here, as in BLIS, rows of
// weights are packed into panels, and no sum goes across lanes.
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
            pack_panel(weights + at * weights_stride + from, weights_stride, count, width, panel);
            for (int64_t row = 0; row < n; row += block_rows) {
                gemm_panel(std::min(block_rows, n - row), rows + row * rows_stride + from, rows_stride, panel, width,
                           from == 0 ? nullptr : ones, to + row * to_stride, to_stride);
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
