// Attention in which every row sees every cell, as that of image encoders, for x86 with AVX2 or AVX-512; attention.cpp puts it
// in place of ggml's.
//
// ggml arranges keys anew for every 64 rows, one number at a time. Here, a block of keys and values becomes panels once for
// some hundred rows, and scores and sums are products with panels. All sums are in f32 (online softmax: Dao et al.,
// FlashAttention, 2022).

#pragma once

#include "ggml-cpu-impl.h"
#include "panels.h"
#include "vec.h"

#if defined(LOOKOUT_FLOATS)

namespace {

/** Cells whose keys and values are in panels at the same time. */
constexpr int64_t PANEL_CELLS = 8 * PANEL;
/** Rows that share them. */
constexpr int64_t PART_ROWS = 256;

inline int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

struct EncoderAttention {
    const ggml_tensor * q;
    const ggml_tensor * k;
    const ggml_tensor * v;
    ggml_tensor * out;
    float scale;

    explicit EncoderAttention(ggml_tensor * dst) : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), out(dst) {
        memcpy(&scale, dst->op_params, sizeof(float));
    }

    bool is_ours() const {
        float bias_and_cap[2];
        memcpy(bias_and_cap, (const float *) out->op_params + 1, sizeof(bias_and_cap));
        return out->src[3] == nullptr && out->src[4] == nullptr && bias_and_cap[0] == 0.0f && bias_and_cap[1] == 0.0f &&
            scale > 0.0f && q->type == GGML_TYPE_F32 && is_readable(k) && is_readable(v) && k->ne[2] == v->ne[2] &&
            k->ne[3] == v->ne[3] && q->nb[0] == sizeof(float) && q->ne[1] >= TOGETHER;
    }

    static bool is_readable(const ggml_tensor * cells) {
        return cells->type == GGML_TYPE_F16 && cells->nb[0] == sizeof(ggml_fp16_t);
    }

    int64_t parts() const { return (q->ne[1] + PART_ROWS - 1) / PART_ROWS; }

    void run(const ggml_compute_params * params) const {
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        const int64_t items = q->ne[3] * q->ne[2] * parts();
        for (int64_t item = params->ith; item < items; item = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            attend(item / parts() % q->ne[2], item / parts() / q->ne[2], item % parts() * PART_ROWS);
        }
        // The next to use the counter sets it.
        ggml_barrier(params->threadpool);
    }

    static const ggml_fp16_t * cells_of(const ggml_tensor * of, int64_t cell, int64_t head, int64_t stream) {
        return (const ggml_fp16_t *) ((const char *) of->data + cell * of->nb[1] + head * of->nb[2] + stream * of->nb[3]);
    }

    /** Some rows of a head from `first_row` on. */
    void attend(int64_t head, int64_t stream, int64_t first_row) const {
        static thread_local Scratch<ggml_fp16_t> half_memory;
        static thread_local Scratch<float> key_memory, value_memory, sum_memory, score_memory;
        const int64_t width = k->ne[0];
        const int64_t value_width = v->ne[0];
        const int64_t sums_width = rounded_up(value_width, PANEL);
        const int64_t cells = k->ne[1];
        const int64_t rows = std::min(PART_ROWS, q->ne[1] - first_row);
        const int64_t key_head = head / (q->ne[2] / k->ne[2]);
        const int64_t key_stream = stream / (q->ne[3] / k->ne[3]);
        const int64_t panel_size = rounded_up(width, COLUMNS) * PANEL;
        ggml_fp16_t * halves = half_memory.of(panel_size);
        float * keys = key_memory.of(PANEL_CELLS / PANEL * panel_size);
        float * values = value_memory.of(PANEL_CELLS * sums_width);
        float * scores = score_memory.of(TOGETHER * PANEL_CELLS);
        float * sums = sum_memory.of(rows * sums_width);
        float largest_of[PART_ROWS], total_of[PART_ROWS];
        std::fill(largest_of, largest_of + rows, -INFINITY);
        std::fill(total_of, total_of + rows, 0.0f);
        std::fill(sums, sums + rows * sums_width, 0.0f);
        const char * queries = (const char *) q->data + first_row * q->nb[1] + head * q->nb[2] + stream * q->nb[3];
        const int64_t query_stride = q->nb[1] / sizeof(float);

        for (int64_t cell = 0; cell < cells; cell += PANEL_CELLS) {
            const int64_t here = std::min(PANEL_CELLS, cells - cell);
            const int64_t panels = (here + PANEL - 1) / PANEL;
            for (int64_t p = 0; p < panels; p++) {
                panel_of_columns(cells_of(k, cell + p * PANEL, key_head, key_stream), k->nb[1] / sizeof(ggml_fp16_t),
                                 std::min<int64_t>(PANEL, here - p * PANEL), width, halves);
                to_floats(halves, width, keys + p * panel_size);
            }
            for (int64_t p = 0; p < sums_width / PANEL; p++) {
                for (int64_t c = 0; c < here; c++) {
                    const ggml_fp16_t * from = cells_of(v, cell + c, key_head, key_stream) + p * PANEL;
                    float * to = values + (p * PANEL_CELLS + c) * PANEL;
                    store(to, some_halves(from, value_width - p * PANEL));
                    store(to + LANES, some_halves(from + LANES, value_width - p * PANEL - LANES));
                }
            }
            for (int64_t row = 0; row < rows; row += TOGETHER) {
                const int64_t count = std::min<int64_t>(TOGETHER, rows - row);
                for (int64_t p = 0; p < panels; p++) {
                    multiply_panel(count, (const float *) queries + row * query_stride, query_stride, keys + p * panel_size,
                                   width, nullptr, scores + p * PANEL, PANEL_CELLS);
                }
                float kept[TOGETHER];
                for (int64_t r = 0; r < count; r++) {
                    kept[r] = weigh(scores + r * PANEL_CELLS, here, panels * PANEL, largest_of[row + r], total_of[row + r]);
                }
                for (int64_t p = 0; p < sums_width / PANEL; p++) {
                    multiply_panel(count, scores, PANEL_CELLS, values + p * PANEL_CELLS * PANEL, here, kept,
                                   sums + row * sums_width + p * PANEL, sums_width);
                }
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            // In the result, the dimensions of rows and heads are swapped.
            float * to = (float *) ((char *) out->data + ((stream * q->ne[1] + first_row + row) * q->ne[2] + head) * out->nb[1]);
            for (int64_t d = 0; d < value_width; d++) to[d] = sums[row * sums_width + d] / total_of[row];
        }
    }

    /**
     * Turns a row's scores into weights.
     * @param count scores that there are; up to `padded`, a multiple of LANES, weights become 0.
     * @return what the sums of earlier cells are multiplied with.
     */
    float weigh(float * scores, int64_t count, int64_t padded, float & largest_before, float & total) const {
        std::fill(scores + count, scores + padded, -INFINITY);
        Floats largest_here = all(-INFINITY);
        for (int64_t c = 0; c < padded; c += LANES) largest_here = larger(largest_here, load(scores + c));
        const float now = std::max(largest_before, largest(largest_here) * scale);
        const float kept = largest_before == now ? 1.0f : expf(largest_before - now);
        Floats here = all(0.0f);
        for (int64_t c = 0; c < padded; c += LANES) {
            const Floats exponent = fma(load(scores + c), all(scale), all(-now));
            const Floats weight = ggml_v_expf(larger(exponent, all(SMALLEST_EXPONENT)));
            store(scores + c, weight);
            here = add(here, weight);
        }
        largest_before = now;
        total = total * kept + sum(here);
        return kept;
    }
};

}  // namespace

#endif
