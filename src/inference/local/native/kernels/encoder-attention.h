// Attention without a cache, for x86 with AVX2 or AVX-512: that of image encoders, and of embedding models, which see several
// texts in a batch. attention.cpp substitutes it for ggml's.
//
// ggml repacks the keys for every 64 query rows, one element at a time. Here, a block of keys and values is packed into panels
// once for up to 256 rows, and QK^T and PV are GEMMs with these panels. Softmax is computed online, block by block (Milakov and
// Gimelshein 2018; Dao et al., FlashAttention, 2022). All sums are in f32.
//
// With a mask, tiles end where a text ends, and skip the cells of others. Blocks are counted from a tile's first cell. So the
// result of a row depends on its text alone.

#pragma once

#include "attention-micro-kernel.h"
#include "ggml-cpu-impl.h"
#include "panels.h"
#include "vec.h"

#include <vector>

#if defined(LOOKOUT_SIMD)

namespace {

/** Cells of keys and values that are packed at a time. */
constexpr int64_t PACKED_CELLS = 8 * PANEL_WIDTH;
/** Maximum query rows in a tile; they share the packed keys and values. */
constexpr int64_t MAX_QUERY_ROWS = 256;

inline int64_t rounded_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/** Consecutive rows of a text or an image, and the range of cells that they attend to. */
struct RowTile {
    int64_t stream, row, rows, first, end;
};

struct EncoderAttention {
    const ggml_tensor * q;
    const ggml_tensor * k;
    const ggml_tensor * v;
    const ggml_tensor * mask;
    ggml_tensor * out;
    float scale;

    explicit EncoderAttention(ggml_tensor * dst)
        : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), out(dst) {
        memcpy(&scale, dst->op_params, sizeof(float));
    }

    bool is_supported() const {
        float bias_and_cap[2];
        memcpy(bias_and_cap, (const float *) out->op_params + 1, sizeof(bias_and_cap));
        return (mask == nullptr ? q->ne[1] >= MICRO_ROWS : is_of_batch()) && out->src[4] == nullptr && bias_and_cap[0] == 0.0f &&
            bias_and_cap[1] == 0.0f && scale > 0.0f && q->type == GGML_TYPE_F32 && is_f16(k) && is_f16(v) &&
            k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3] && q->nb[0] == sizeof(float);
    }

    /** Whether the rows attend to each other rather than to a cache. */
    bool is_of_batch() const {
        return is_f16(mask) && mask->ne[2] == 1 && q->ne[1] == k->ne[1] && lookout_cell_stamps(k) == nullptr;
    }

    static bool is_f16(const ggml_tensor * cells) {
        return cells->type == GGML_TYPE_F16 && cells->nb[0] == sizeof(ggml_fp16_t);
    }

    const ggml_fp16_t * row_mask(int64_t row, int64_t stream) const {
        return (const ggml_fp16_t *) ((const char *) mask->data + row * mask->nb[1] + stream % mask->ne[3] * mask->nb[3]);
    }

    std::vector<RowTile> tiles() const {
        std::vector<RowTile> found;
        for (int64_t stream = 0; stream < q->ne[3]; stream++) {
            int64_t end_before = 0;
            for (int64_t row = 0; row < q->ne[1]; row++) {
                int64_t first = 0, end = k->ne[1];
                if (mask != nullptr) {
                    const ggml_fp16_t * cells = row_mask(row, stream);
                    while (end - first >= SKIP_CELLS && is_fully_masked(cells + first)) first += SKIP_CELLS;
                    while (first < end && cells[first] == MASKED) first++;
                    while (end - first >= SKIP_CELLS && is_fully_masked(cells + end - SKIP_CELLS)) end -= SKIP_CELLS;
                    while (first < end && cells[end - 1] == MASKED) end--;
                }
                if (row == 0 || found.back().rows == MAX_QUERY_ROWS || first >= end_before) {
                    found.push_back({stream, row, 0, first, end});
                }
                RowTile & tile = found.back();
                tile = {stream, tile.row, tile.rows + 1, std::min(tile.first, first), std::max(tile.end, end)};
                end_before = end;
            }
        }
        return found;
    }

    void run(const ggml_compute_params * params) const {
        if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
        ggml_barrier(params->threadpool);
        const std::vector<RowTile> parts = tiles();
        const int64_t items = q->ne[2] * parts.size();
        for (int64_t item = params->ith; item < items; item = ggml_threadpool_chunk_add(params->threadpool, 1)) {
            attend(item / parts.size(), parts[item % parts.size()]);
        }
        // The next user of the chunk counter resets it.
        ggml_barrier(params->threadpool);
    }

    static const ggml_fp16_t * cells_of(const ggml_tensor * of, int64_t cell, int64_t head, int64_t stream) {
        return (const ggml_fp16_t *) ((const char *) of->data + cell * of->nb[1] + head * of->nb[2] + stream * of->nb[3]);
    }

    /** Computes a tile for a head. */
    void attend(int64_t head, const RowTile & tile) const {
        static thread_local AlignedBuffer<ggml_fp16_t> half_buffer;
        static thread_local AlignedBuffer<float> key_buffer, value_buffer, sum_buffer, score_buffer;
        const int64_t width = k->ne[0];
        const int64_t value_width = v->ne[0];
        const int64_t sums_width = rounded_up(value_width, PANEL_WIDTH);
        const int64_t stream = tile.stream;
        const int64_t rows = tile.rows;
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
        const char * queries = (const char *) q->data + tile.row * q->nb[1] + head * q->nb[2] + stream * q->nb[3];
        const int64_t query_stride = q->nb[1] / sizeof(float);

        for (int64_t cell = tile.first; cell < tile.end; cell += PACKED_CELLS) {
            const int64_t block_cells = std::min(PACKED_CELLS, tile.end - cell);
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
                    if (mask != nullptr) {
                        add_mask(scores + r * PACKED_CELLS, row_mask(tile.row + row + r, stream) + cell, block_cells);
                    }
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
            float * to = (float *) ((char *) out->data + ((stream * q->ne[1] + tile.row + row) * q->ne[2] + head) * out->nb[1]);
            // A row that attends to nothing has sums of 0.
            const float total = row_sum[row] == 0.0f ? 1.0f : row_sum[row];
            for (int64_t d = 0; d < value_width; d++) to[d] = sums[row * sums_width + d] / total;
        }
    }

    /** Adds a row's mask to its scores, before they are scaled. @param scores room for whole vectors. */
    void add_mask(float * scores, const ggml_fp16_t * row_mask, int64_t count) const {
        const Floats inverse = broadcast(1.0f / scale);
        for (int64_t c = 0; c < count; c += LANES) {
            store(scores + c, fma(load_partial_f16(row_mask + c, count - c), inverse, load(scores + c)));
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
            const Floats score = load(scores + c);
            const Floats exponent = fma(score, broadcast(scale), broadcast(-new_max));
            const Floats weight = zero_masked(score, ggml_v_expf(max(exponent, broadcast(MIN_EXPONENT))));
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
