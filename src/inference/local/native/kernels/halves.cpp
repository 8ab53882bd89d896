// Products of weights of f16 and a batch of rows, for x86 with AVX2 or AVX-512.
//
// ggml's sgemm.cpp converts each number from f16 again for every few rows that it is multiplied with, and sums across
// lanes at the end of each row: of weights of 192 numbers, as in the encoder of a small model, half of the time. Here, a
// panel of weights is converted once for all rows of a batch. For a few rows that is not worth it, and ggml's code is used.

#include "ggml-cpu-impl.h"
#include "panels.h"

#if defined(LOOKOUT_FLOATS)

namespace {

/** Fewest rows of a batch that are worth a panel. */
constexpr int64_t FEWEST_ROWS = 12;
/** From so many rows on, a panel is converted to f32 once instead of each time that it is read. */
constexpr int64_t MANY_ROWS = 64;
/** Numbers of a row that are multiplied before the next, so that the panel stays in a cache near to the core. */
constexpr int64_t MOST_HEIGHT = 1024;

/** Makes f32 of some numbers of up to TOGETHER rows. @return how far the rows are apart in `to`. */
inline int64_t rows_to_floats(const ggml_fp16_t * rows, int64_t rows_stride, int64_t count, int64_t height, float * to) {
    const int64_t stride = (height + LANES - 1) / LANES * LANES;
    for (int64_t r = 0; r < count; r++) {
        for (int64_t i = 0; i < height; i += LANES) store(to + r * stride + i, some_halves(rows + r * rows_stride + i, height - i));
    }
    return stride;
}

}  // namespace

/**
 * @param m rows of weights. @param n rows of the batch. @param k numbers in each.
 * @param rows rounded to f16, as ggml has them where it computes: a reply would else depend on how many rows a batch has.
 * @param out [row of the batch][row of weights]
 * @return whether it was computed; every thread gets the same answer.
 */
extern "C" bool lookout_multiply_halves(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                        const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                        int64_t rows_stride, float * out, int64_t out_stride) {
    if (n < FEWEST_ROWS) return false;
    static thread_local Scratch<ggml_fp16_t> panel_memory;
    static thread_local Scratch<float> float_memory, edge_memory, row_memory;
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml_barrier(params->threadpool);
    const int64_t size = (std::min(k, MOST_HEIGHT) + COLUMNS) * PANEL;
    ggml_fp16_t * panel = panel_memory.of(size);
    float * floats = n < MANY_ROWS ? nullptr : float_memory.of(size);
    const int64_t panels = (m + PANEL - 1) / PANEL;
    float * some = row_memory.of(TOGETHER * (std::min(k, MOST_HEIGHT) + LANES));
    float kept[TOGETHER];
    std::fill(kept, kept + TOGETHER, 1.0f);
    for (int64_t chunk = params->ith; chunk < panels; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t first = chunk * PANEL;
        const int64_t count = std::min<int64_t>(PANEL, m - first);
        float * to = count == PANEL ? out + first : edge_memory.of(n * PANEL);
        const int64_t to_stride = count == PANEL ? out_stride : PANEL;
        for (int64_t from = 0; from < k; from += MOST_HEIGHT) {
            const int64_t height = std::min(MOST_HEIGHT, k - from);
            panel_of_columns(weights + first * weights_stride + from, weights_stride, count, height, panel);
            if (floats != nullptr) to_floats(panel, height, floats);
            for (int64_t row = 0; row < n; row += TOGETHER) {
                const int64_t together = std::min<int64_t>(TOGETHER, n - row);
                const int64_t stride = rows_to_floats(rows + row * rows_stride + from, rows_stride, together, height, some);
                const auto multiply = [&](const auto * with) {
                    multiply_panel(together, some, stride, with, height, from == 0 ? nullptr : kept, to + row * to_stride, to_stride);
                };
                if (floats != nullptr) multiply(floats);
                else multiply(panel);
            }
        }
        if (count == PANEL) continue;
        for (int64_t row = 0; row < n; row++) std::memcpy(out + row * out_stride + first, to + row * PANEL, count * sizeof(float));
    }
    // The next product sets the counter.
    ggml_barrier(params->threadpool);
    return true;
}

#else

extern "C" bool lookout_multiply_halves(const ggml_compute_params *, int64_t, int64_t, int64_t, const ggml_fp16_t *,
                                        int64_t, const ggml_fp16_t *, int64_t, float *, int64_t) {
    return false;
}

#endif
