// Attention without a mask, as in image encoders, for x86 with AVX2 or AVX-512. attention.cpp substitutes it for ggml's.
//
// ggml repacks the keys for every 64 query rows, one element at a time. Here, a block of keys and values is packed into panels
// once for up to 256 rows, and QK^T and PV are GEMMs with these panels. Softmax is computed online, block by block (Milakov and
// Gimelshein 2018; Dao et al., FlashAttention, 2022). All sums are in f32.

#pragma once

#include "ggml-cpu-impl.h"
#include "panels.h"
#include "vec.h"

#if defined(LOOKOUT_SIMD)

namespace {

/** Cells of keys and values that are packed at a time. */
constexpr int64_t PACKED_CELLS = 8 * PANEL_WIDTH;
/** Maximum query rows in a tile; they share the packed keys and values. */
constexpr int64_t MAX_QUERY_ROWS = 256;

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

    bool is_supported() const {
        float bias_and_cap[2];
        memcpy(bias_and_cap, (const float *) out->op_params + 1, sizeof(bias_and_cap));
        return out->src[3] == nullptr && out->src[4] == nullptr && bias_and_cap[0] == 0.0f && bias_and_cap[1] == 0.0f &&
            scale > 0.0f && q->type == GGML_TYPE_F32 && is_f16(k) && is_f16(v) && k->ne[2] == v->ne[2] &&
            k->ne[3] == v->ne[3] && q->nb[0] == sizeof(float) && q->ne[1] >= MICRO_ROWS;
    }

    static bool is_f16(const ggml_tensor * cells) {
        return cells->type == GGML_TYPE_F16 && cells->nb[0] == sizeof(ggml_fp16_t);
    }

    int64_t tiles() const { return (q->ne[1] + MAX_QUERY_ROWS - 1) / MAX_QUERY_ROWS; }

    void run(const ggml_compute_params * params) const {
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        const int64_t items = q->ne[3] * q->ne[2] * tiles();
        for (int64_t item = params->ith; item < items; item = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            attend(item / tiles() % q->ne[2], item / tiles() / q->ne[2], item % tiles() * MAX_QUERY_ROWS);
        }
        // The next user of the chunk counter resets it.
        ggml_barrier(params->threadpool);
    }

    static const ggml_fp16_t * cells_of(const ggml_tensor * of, int64_t cell, int64_t head, int64_t stream) {
        return (const ggml_fp16_t *) ((const char *) of->data + cell * of->nb[1] + head * of->nb[2] + stream * of->nb[3]);
    }

    /** Computes up to MAX_QUERY_ROWS query rows of a head, from `first_row` on. */
    void attend(int64_t head, int64_t stream, int64_t first_row) const {
        static thread_local AlignedBuffer<ggml_fp16_t> half_buffer;
        static thread_local AlignedBuffer<float> key_buffer, value_buffer, sum_buffer, score_buffer;
        const int64_t width = k->ne[0];
        const int64_t value_width = v->ne[0];
        const int64_t sums_width = rounded_up(value_width, PANEL_WIDTH);
        const int64_t cells = k->ne[1];
        const int64_t rows = std::min(MAX_QUERY_ROWS, q->ne[1] - first_row);
        const int64_t key_head = head / (q->ne[2] / k->ne[2]);
        const int64_t key_stream = stream / (q->ne[3] / k->ne[3]);
        const int64_t panel_size = rounded_up(width, PACK_STEP) * PANEL_WIDTH;
        ggml_fp16_t * packed = half_buffer.reserve(panel_size);
        float * keys = key_buffer.reserve(PACKED_CELLS / PANEL_WIDTH * panel_size);
        float * values = value_buffer.reserve(PACKED_CELLS * sums_width);
        float * scores = score_buffer.reserve(MICRO_ROWS * PACKED_CELLS);
        float * sums = sum_buffer.reserve(rows * sums_width);
        float row_max[MAX_QUERY_ROWS], row_sum[MAX_QUERY_ROWS];
        std::fill(row_max, row_max + rows, -INFINITY);
        std::fill(row_sum, row_sum + rows, 0.0f);
        std::fill(sums, sums + rows * sums_width, 0.0f);
        const char * queries = (const char *) q->data + first_row * q->nb[1] + head * q->nb[2] + stream * q->nb[3];
        const int64_t query_stride = q->nb[1] / sizeof(float);

        for (int64_t cell = 0; cell < cells; cell += PACKED_CELLS) {
            const int64_t block_cells = std::min(PACKED_CELLS, cells - cell);
            const int64_t panels = (block_cells + PANEL_WIDTH - 1) / PANEL_WIDTH;
            for (int64_t p = 0; p < panels; p++) {
                pack_panel(cells_of(k, cell + p * PANEL_WIDTH, key_head, key_stream), k->nb[1] / sizeof(ggml_fp16_t),
                           std::min<int64_t>(PANEL_WIDTH, block_cells - p * PANEL_WIDTH), width, packed);
                panel_to_f32(packed, width, keys + p * panel_size);
            }
            for (int64_t p = 0; p < sums_width / PANEL_WIDTH; p++) {
                for (int64_t c = 0; c < block_cells; c++) {
                    const ggml_fp16_t * from = cells_of(v, cell + c, key_head, key_stream) + p * PANEL_WIDTH;
                    float * to = values + (p * PACKED_CELLS + c) * PANEL_WIDTH;
                    store(to, load_partial_f16(from, value_width - p * PANEL_WIDTH));
                    store(to + LANES, load_partial_f16(from + LANES, value_width - p * PANEL_WIDTH - LANES));
                }
            }
            for (int64_t row = 0; row < rows; row += MICRO_ROWS) {
                const int64_t count = std::min<int64_t>(MICRO_ROWS, rows - row);
                for (int64_t p = 0; p < panels; p++) {
                    gemm_panel(count, (const float *) queries + row * query_stride, query_stride, keys + p * panel_size,
                               width, nullptr, scores + p * PANEL_WIDTH, PACKED_CELLS);
                }
                float rescale[MICRO_ROWS];
                for (int64_t r = 0; r < count; r++) {
                    rescale[r] = online_softmax(scores + r * PACKED_CELLS, block_cells, panels * PANEL_WIDTH, row_max[row + r],
                                                row_sum[row + r]);
                }
                for (int64_t p = 0; p < sums_width / PANEL_WIDTH; p++) {
                    gemm_panel(count, scores, PACKED_CELLS, values + p * PACKED_CELLS * PANEL_WIDTH, block_cells, rescale,
                               sums + row * sums_width + p * PANEL_WIDTH, sums_width);
                }
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            // The result has rows and heads swapped.
            float * to = (float *) ((char *) out->data + ((stream * q->ne[1] + first_row + row) * q->ne[2] + head) * out->nb[1]);
            for (int64_t d = 0; d < value_width; d++) to[d] = sums[row * sums_width + d] / row_sum[row];
        }
    }

    /**
     * One step of online softmax: replaces a row's scores in a block by exp(score - maximum), and updates its running maximum
     * and sum.
     * @param count scores in the block. Those up to `padded`, a multiple of LANES, become 0.
     * @return the factor that rescales what earlier blocks accumulated.
     */
    float online_softmax(float * scores, int64_t count, int64_t padded, float & row_max, float & row_sum) const {
        std::fill(scores + count, scores + padded, -INFINITY);
        Floats block_max = broadcast(-INFINITY);
        for (int64_t c = 0; c < padded; c += LANES) block_max = max(block_max, load(scores + c));
        const float new_max = std::max(row_max, reduce_max(block_max) * scale);
        const float rescale = row_max == new_max ? 1.0f : expf(row_max - new_max);
        Floats block_sum = broadcast(0.0f);
        for (int64_t c = 0; c < padded; c += LANES) {
            const Floats exponent = fma(load(scores + c), broadcast(scale), broadcast(-new_max));
            const Floats weight = ggml_v_expf(max(exponent, broadcast(MIN_EXPONENT)));
            store(scores + c, weight);
            block_sum = add(block_sum, weight);
        }
        row_max = new_max;
        row_sum = row_sum * rescale + reduce_add(block_sum);
        return rescale;
    }
};

}  // namespace

#endif
