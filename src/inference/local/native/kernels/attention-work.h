// How the work of an attention operation is divided: rows into tiles, tiles and heads into work items. See attention.h.
#pragma once

#include "attention-micro-kernel.h"

#include <cstring>
#include <numeric>
#include <vector>

#if defined(LOOKOUT_SIMD)

namespace {

/** Maximum queries (a row and a head) in a tile; they share the dequantised cells. */
constexpr int MAX_QUERIES = 32;

/** Consecutive rows that attend to mostly the same cells. */
struct Tile {
    int64_t row;
    int64_t rows;
    /**
     * Key heads that are processed together. The heads of a cell are contiguous: for one head alone, every cell would be a
     * strided access, which the hardware does not prefetch.
     */
    int64_t heads;
};

/** A thread's unit of work: the queries of a tile for some key heads. */
struct WorkItem {
    int64_t stream;
    int64_t row;
    int64_t rows;
    int64_t head;
    int64_t heads;
};

/** The tensors of an attention operation, and how its work is divided. */
struct Inputs {
    /** Cells that are sampled to compare two rows. */
    static constexpr int64_t PROBES = 64;

    const ggml_tensor * q;
    const ggml_tensor * k;
    const ggml_tensor * v;
    const ggml_tensor * mask;
    ggml_tensor * out;
    float scale;
    float cap;             // Soft cap: scores are cap * tanh(score / cap). 0 for none.
    const float * sinks;   // [query head]: a further score, whose value is 0. Null for none.
    int64_t gqa_ratio;  // Query heads per key head.
    int64_t max_rows;   // Rows of a tile.

    explicit Inputs(ggml_tensor * dst)
        : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), out(dst),
          sinks(dst->src[4] == nullptr ? nullptr : (const float *) dst->src[4]->data), gqa_ratio(q->ne[2] / k->ne[2]),
          max_rows(std::max<int64_t>(1, MAX_QUERIES / gqa_ratio)) {
        memcpy(&scale, dst->op_params, sizeof(float));
        memcpy(&cap, (const float *) dst->op_params + 2, sizeof(float));
    }

    bool is_supported() const {
        float bias;
        memcpy(&bias, (const float *) out->op_params + 1, sizeof(bias));
        return mask != nullptr && bias == 0.0f && q->type == GGML_TYPE_F32 && mask->type == GGML_TYPE_F16 &&
            is_supported_type(k) && is_supported_type(v) && k->ne[1] % BLOCK_CELLS == 0 && gqa_ratio <= MAX_QUERIES && k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3] &&
            q->nb[0] == sizeof(float) && mask->nb[0] == sizeof(ggml_fp16_t) && mask->ne[2] == 1;
    }

    const float * query(int64_t row, int64_t head, int64_t stream) const {
        return (const float *) ((const char *) q->data + row * q->nb[1] + head * q->nb[2] + stream * q->nb[3]);
    }

    /** The mask of a row, for all heads. */
    const ggml_fp16_t * row_mask(int64_t row, int64_t stream) const {
        return (const ggml_fp16_t *) ((const char *) mask->data + row * mask->nb[1] + stream % mask->ne[3] * mask->nb[3]);
    }

    /** The result has rows and heads swapped. */
    float * result(int64_t row, int64_t head, int64_t stream) const {
        return (float *) ((char *) out->data + ((stream * q->ne[1] + row) * q->ne[2] + head) * out->nb[1]);
    }

    /** Calls a function with a sample of the cells. */
    template <typename Function>
    void each_probe(Function function) const {
        const int64_t cells = k->ne[1];
        const int64_t stride = std::max<int64_t>(BLOCK_CELLS, cells / PROBES);
        // New cells of sequences that decode together alternate: probes at equal distances could all belong to one sequence.
        for (int64_t i = 0; i * stride < cells; i++) function(std::min(i * stride + i % BLOCK_CELLS, cells - 1));
    }

    bool attends(int64_t row, int64_t cell) const { return row_mask(row, 0)[cell] != MASKED; }

    /** Whether two rows attend to mostly the same cells, as rows of a prompt and sequences with a shared prefix do. */
    bool overlaps(int64_t a, int64_t b) const {
        int64_t by_a = 0;
        int64_t by_b = 0;
        int64_t both = 0;
        each_probe([&](int64_t cell) {
            by_a += attends(a, cell);
            by_b += attends(b, cell);
            both += attends(a, cell) && attends(b, cell);
        });
        return 2 * both >= std::max(by_a, by_b);
    }

    /** Whether tiles that are dealt out in turn give all threads about the same work. */
    bool is_balanced(const std::vector<Tile> & tiles, int64_t threads) const {
        if ((int64_t) tiles.size() < threads) return false;
        std::vector<int64_t> work(threads);
        for (size_t t = 0; t < tiles.size(); t++) {
            int64_t cells_of_first = 1;
            each_probe([&](int64_t cell) { cells_of_first += attends(tiles[t].row, cell); });
            work[t % threads] += tiles[t].rows * cells_of_first;
        }
        const int64_t most = *std::max_element(work.begin(), work.end());
        const int64_t total = std::accumulate(work.begin(), work.end(), (int64_t) 0);
        return 4 * most * threads <= 5 * total;
    }

    /** Groups the rows into tiles: cells are dequantised once for a tile, and each tile skips the cells of others. */
    std::vector<Tile> tiles(int64_t threads) const {
        std::vector<Tile> found;
        for (int64_t row = 0; row < q->ne[1];) {
            int64_t end = std::min(q->ne[1], row + max_rows);
            if (!overlaps(row, end - 1)) {
                for (end = row + 1; overlaps(row, end);) end++;
            }
            found.push_back({row, end - row, 1});
            row = end;
        }
        // Where one sequence is much longer than the others, its heads are divided among the threads.
        const int64_t blocks = is_balanced(found, threads) ? 1 : std::min(threads, k->ne[2]);
        for (Tile & tile : found) {
            const int64_t fit = std::max<int64_t>(1, MAX_QUERIES / (tile.rows * gqa_ratio));
            tile.heads = std::min(fit, (k->ne[2] + blocks - 1) / blocks);
        }
        return found;
    }

    /** Calls a function with each work item. Items that read the same heads are consecutive. */
    template <typename Function>
    void each_item(const std::vector<Tile> & tiles, Function function) const {
        for (int64_t stream = 0; stream < q->ne[3]; stream++) {
            for (int64_t block = 0; block < k->ne[2]; block++) {
                for (const Tile & tile : tiles) {
                    const int64_t head = block * tile.heads;
                    if (head >= k->ne[2]) continue;
                    function(WorkItem{stream, tile.row, tile.rows, head, std::min(tile.heads, k->ne[2] - head)});
                }
            }
        }
    }

    /** Calls a function with each query of an item: its index in `PartialSoftmax`, its row and its head. */
    template <typename Function>
    void each_query(const WorkItem & item, Function function) const {
        for (int64_t i = 0; i < item.heads * item.rows * gqa_ratio; i++) {
            const int64_t head = item.head + i / gqa_ratio / item.rows;
            function(i, item.row + i / gqa_ratio % item.rows, head * gqa_ratio + i % gqa_ratio);
        }
    }
};

}  // namespace

#endif
