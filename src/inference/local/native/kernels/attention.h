// Attention over a KV cache for x86 with AVX2 or AVX-512. attention.cpp substitutes it for ggml's.
//
// To decode next tokens, ggml computes one query against one cell at a time, with a scalar exponential for each, and accumulates
// in f16. For a small model with some context, this takes most of a step. For prompts, it works on tiles of rows and computes
// each cell that any row of a tile attends to for all of its rows.
//
// Here, blocks of sixteen cells (f16 or Q8_0) are dequantised to f32, once for all rows of a tile: rows that attend to mostly the
// same cells. Register blocking reads each key and value once for several queries, among them the heads of a group (GQA). Fully
// masked blocks are skipped. Where sequences decode together, their new cells alternate, and a row attends to one or two of
// sixteen: these are gathered into blocks. All sums are in f32.
//
// A row's result depends only on its query and on the cells that it attends to, in the order in which they were written. It does
// not depend on where they lie, on other rows, on the size of the cache, or on the number of threads. The cells of a row are
// split at fixed counts, in the row's own order (split KV, as in Flash-Decoding: Dao et al. 2023). For each split, all scores are
// computed first, in any order, as each has its rank in the row; then the softmax over them, in the order of ranks; then the
// weighted values are added cell by cell. Splits are merged like the blocks of an online softmax.
//
//   attention-micro-kernel.h  products, weighted sums, dequantisation and masks of blocks of cells
//   attention-work.h          how the work is divided
//   encoder-attention.h       attention without a cache

#pragma once

#include "attention-work.h"
#include "panels.h"
#include "vec.h"

#include <array>
#include <cfloat>

#if defined(LOOKOUT_SIMD)

namespace {

/** Cells of a split, of those that a row attends to. Another number changes how sums are rounded. */
constexpr int SPLIT_CELLS = 512;
/** Floats for the scores of a query in a split: vector stores may run past the last score. */
constexpr int SCORE_STRIDE = SPLIT_CELLS + BLOCK_CELLS;
/** Floats of the blocks that are dequantised together, unless one has more: they stay in L1. */
constexpr int64_t KV_BUFFER_FLOATS = 4096;
/** A row that attends to fewer cells of a block gathers them: it reads fewer cells, but dequantises them for itself alone. */
constexpr int MIN_SHARED_CELLS = BLOCK_CELLS / 2;

/**
 * Softmax attention of each query over a split, not yet normalised: the maximum score m, the sum of exp(score - m), and the
 * sum of the values weighted by exp(score - m).
 */
struct PartialSoftmax {
    float max[MAX_QUERIES];
    float sum[MAX_QUERIES];
    float values[MAX_QUERIES * MAX_HEAD_SIZE];
};

/** Merges a split into those before it, as in online softmax. Splits are merged in order, whichever threads compute them. */
[[gnu::noinline]] void merge_split(float & row_max, float & row_sum, float * values, float max_of_split, float sum_of_split,
                                   const float * values_of_split, int64_t width) {
    if (sum_of_split == 0.0f) return;
    const float new_max = std::max(row_max, max_of_split);
    const float rescale = row_sum == 0.0f ? 0.0f : expf(row_max - new_max);
    const float split_scale = expf(max_of_split - new_max);
    for (int64_t d = 0; d < width; d += LANES) {
        store(values + d, fma(load(values + d), broadcast(rescale), multiply(load(values_of_split + d), broadcast(split_scale))));
    }
    row_sum = row_sum * rescale + sum_of_split * split_scale;
    row_max = new_max;
}

/** tanh(x) = 1 - 2 / (1 + exp(2 x)) */
inline Floats tanh(Floats x) {
    const Floats exponent = max(broadcast(MIN_EXPONENT), min(broadcast(-MIN_EXPONENT), add(x, x)));
    return subtract(broadcast(1.0f), divide(broadcast(2.0f), add(broadcast(1.0f), ggml_v_expf(exponent))));
}

/** BLOCK_CELLS cells, or fewer gathered ones, and the rows that attend to some of them. */
struct KvBlock {
    int32_t cells[BLOCK_CELLS];
    int count;
    /** In `block_rows`. */
    int first_row;
    int end_row;
};

/** A row that attends to some cells of a block. */
struct BlockRow {
    int row;
    /** Which of the cells. */
    uint32_t bits;
    /** Cells of the split that the row attends to before these: the index of their scores. */
    int rank;
    /** The row's mask of the block's cells, which is added to their scores. */
    const ggml_fp16_t * mask;
};

/** The dequantised blocks that a row attends to. */
struct RowBlocks {
    BlockList blocks;
    const BlockRow * block_rows[MAX_BLOCKS];
};

/** Queries of rows that attend to the same of these blocks: a register block. */
struct QueryGroup {
    int count;
    const float * queries[REGISTER_QUERIES];
    float * scores[REGISTER_QUERIES];
    float * values[REGISTER_QUERIES];
    const RowBlocks * rows[REGISTER_QUERIES];
};

/** A thread's buffers for a work item. They keep their capacity. */
struct Workspace {
    std::vector<KvBlock> blocks;
    std::vector<BlockRow> block_rows;
    /** Masks of gathered cells. */
    std::vector<std::array<ggml_fp16_t, BLOCK_CELLS>> gathered_masks;
    /** Cells in write order, and the mask of each row in this order. Empty where cells are in order. */
    std::vector<int32_t> order;
    std::vector<ggml_fp16_t> masks;
};

/** Whether the stamps of a block ascend. */
inline bool are_ascending(const uint64_t * stamps) {
    const auto from = [&](int c) { return _mm256_loadu_si256((const __m256i *) (stamps + c)); };
    const auto above = [&](int c) { return _mm256_cmpgt_epi64(from(c + 1), from(c)); };
    const __m256i is_ascending = _mm256_and_si256(_mm256_and_si256(above(0), above(4)), _mm256_and_si256(above(8), above(11)));
    return _mm256_movemask_epi8(is_ascending) == -1;
}

/** Natural merge sort by stamps: cells mostly form a few ascending stretches. */
inline void sort_by(const uint64_t * stamps, std::vector<int32_t> & cells) {
    const auto is_before = [&](int32_t a, int32_t b) { return stamps[a] < stamps[b]; };
    const auto end_of_stretch = [&](auto from) { return std::is_sorted_until(from, cells.end(), is_before); };
    for (auto middle = end_of_stretch(cells.begin()); middle != cells.end(); middle = end_of_stretch(cells.begin())) {
        for (auto first = cells.begin(); middle != cells.end(); middle = end_of_stretch(first)) {
            const auto end = end_of_stretch(middle);
            std::inplace_merge(first, middle, end, is_before);
            first = end;
        }
    }
}

/** Computes the attention of a work item, split by split. */
class TileAttention {
    const Inputs & inputs;
    const WorkItem & item;
    const int64_t width;
    const int64_t value_width;
    const char * keys;
    const char * values;
    Workspace & workspace;
    /** Cells in write order. Where they are in order, the index of a cell is its number, else its index in `workspace.order`. */
    int64_t index_count;
    const ggml_fp16_t * masks[MAX_QUERIES];
    /** By row: the index at which its next split begins, and the cells taken for this split so far. */
    int64_t next_index[MAX_QUERIES];
    int taken[MAX_QUERIES];
    /** By row: gathered cells that are not in a block yet. */
    struct GatheredCells {
        int count;
        int rank;
        int32_t cells[BLOCK_CELLS];
        std::array<ggml_fp16_t, BLOCK_CELLS> mask;
    } gathered[MAX_QUERIES];
    QueryGroup query_group;
    /** By index in the tile. */
    const float * queries[MAX_QUERIES];
    /** Scores of each query, in the order of ranks; softmax replaces them by the weights. */
    alignas(64) float scores[MAX_QUERIES * SCORE_STRIDE];
    /** Dequantised keys, and later values, of blocks. */
    alignas(64) float kv_f32[std::max<int64_t>(KV_BUFFER_FLOATS, BLOCK_CELLS * MAX_HEAD_SIZE)];

    int32_t cell_at(int64_t index) const { return workspace.order.empty() ? (int32_t) index : workspace.order[index]; }

    /** The cells of a block that any row attends to. */
    uint32_t unmasked_by_any(int64_t index) const {
        uint32_t bits = 0;
        for (int64_t row = 0; row < item.rows && bits != 0xFFFF; row++) bits |= unmasked_bits(masks[row] + index);
        return bits;
    }

    /** Whether the cells that the rows attend to were written in the order of their numbers. */
    bool is_in_order(const uint64_t * stamps) const {
        uint64_t before = 0;
        for (int64_t cell = 0; cell < index_count; cell += BLOCK_CELLS) {
            uint32_t bits = unmasked_by_any(cell);
            if (bits == 0xFFFF) {
                if (stamps[cell] < before || !are_ascending(stamps + cell)) return false;
                before = stamps[cell + BLOCK_CELLS - 1];
                continue;
            }
            for (; bits != 0; bits &= bits - 1) {
                const uint64_t stamp = stamps[cell + __builtin_ctz(bits)];
                if (stamp < before) return false;
                before = stamp;
            }
        }
        return true;
    }

    /** Puts the cells that any row attends to in write order. */
    void sort(const uint64_t * stamps) {
        std::vector<int32_t> & order = workspace.order;
        for (int64_t cell = 0; cell < index_count; cell += BLOCK_CELLS) {
            for (uint32_t bits = unmasked_by_any(cell); bits != 0; bits &= bits - 1) order.push_back(cell + __builtin_ctz(bits));
        }
        sort_by(stamps, order);
        index_count = (order.size() + BLOCK_CELLS - 1) / BLOCK_CELLS * BLOCK_CELLS;
        workspace.masks.assign(item.rows * index_count, MASKED);
        for (int64_t row = 0; row < item.rows; row++) {
            ggml_fp16_t * to = workspace.masks.data() + row * index_count;
            for (size_t i = 0; i < order.size(); i++) to[i] = masks[row][order[i]];
            masks[row] = to;
        }
        order.resize(index_count);
    }

    /** Makes a block of a row's gathered cells. */
    void flush_gathered(int64_t row) {
        GatheredCells & row_cells = gathered[row];
        workspace.gathered_masks.push_back(row_cells.mask);
        KvBlock & block = new_block(row_cells.count);
        std::copy(row_cells.cells, row_cells.cells + BLOCK_CELLS, block.cells);
        workspace.block_rows.push_back(
            {(int) row, (1u << row_cells.count) - 1, row_cells.rank, workspace.gathered_masks.back().data()});
        block.end_row++;
        row_cells.count = 0;
    }

    /** Adds a block without rows. */
    KvBlock & new_block(int count) {
        workspace.blocks.emplace_back();
        KvBlock & block = workspace.blocks.back();
        block.count = count;
        block.first_row = block.end_row = workspace.block_rows.size();
        return block;
    }

    void gather(int64_t row, int64_t index, uint32_t bits, int rank) {
        GatheredCells & row_cells = gathered[row];
        for (; bits != 0; bits &= bits - 1, rank++) {
            const int64_t at = index + __builtin_ctz(bits);
            if (row_cells.count == 0) row_cells.rank = rank;
            row_cells.mask[row_cells.count] = masks[row][at];
            row_cells.cells[row_cells.count++] = cell_at(at);
            if (row_cells.count == BLOCK_CELLS) flush_gathered(row);
        }
    }

    /** Takes the cells of the block at `index` that belong to the current split of a row. */
    uint32_t take(int64_t row, int64_t index) {
        uint32_t bits = unmasked_bits(masks[row] + index);
        if (next_index[row] <= index && taken[row] <= SPLIT_CELLS - 2 * BLOCK_CELLS) {
            taken[row] += __builtin_popcount(bits);
            return bits;
        }
        if (taken[row] == SPLIT_CELLS || next_index[row] >= index + BLOCK_CELLS) return 0;
        if (next_index[row] > index) bits &= ~0u << (next_index[row] - index);
        const int over = taken[row] + __builtin_popcount(bits) - SPLIT_CELLS;
        for (int i = 0; i < over; i++) bits &= ~(1u << (31 - __builtin_clz(bits)));
        taken[row] += __builtin_popcount(bits);
        if (taken[row] == SPLIT_CELLS) next_index[row] = index + 32 - __builtin_clz(bits);
        return bits;
    }

    /** Determines the blocks of the next split. */
    void plan_blocks() {
        workspace.blocks.clear();
        workspace.block_rows.clear();
        workspace.gathered_masks.clear();
        // `block_rows` points into it. Each row flushes its gathered cells when they fill a block, before a block that it shares,
        // and at the end.
        workspace.gathered_masks.reserve(MAX_QUERIES * (SPLIT_CELLS / BLOCK_CELLS + SPLIT_CELLS / MIN_SHARED_CELLS + 1));
        std::fill(taken, taken + item.rows, 0);
        const int64_t first = *std::min_element(next_index, next_index + item.rows) / SKIP_CELLS * SKIP_CELLS;
        int64_t left = item.rows;
        for (int64_t block = first; block < index_count && left > 0; block += SKIP_CELLS) {
            const int64_t end = std::min(block + SKIP_CELLS, index_count);
            int64_t rows[MAX_QUERIES];
            int64_t row_count = 0;
            left = 0;
            for (int64_t row = 0; row < item.rows; row++) {
                if (taken[row] == SPLIT_CELLS) continue;
                left++;
                if (end - block < SKIP_CELLS || !is_fully_masked(masks[row] + block)) rows[row_count++] = row;
            }
            for (int64_t index = block; index < end && row_count > 0; index += BLOCK_CELLS) plan_block(index, rows, row_count);
        }
        for (int64_t row = 0; row < item.rows; row++) {
            if (gathered[row].count > 0) flush_gathered(row);
            if (taken[row] < SPLIT_CELLS) next_index[row] = index_count;
        }
    }

    void plan_block(int64_t index, const int64_t * rows, int64_t row_count) {
        BlockRow block_rows[MAX_QUERIES];
        int count = 0;
        for (int64_t i = 0; i < row_count; i++) {
            const int64_t row = rows[i];
            const int rank = taken[row];
            const uint32_t bits = take(row, index);
            if (bits == 0) continue;
            if (__builtin_popcount(bits) < MIN_SHARED_CELLS) {
                gather(row, index, bits, rank);
                continue;
            }
            if (gathered[row].count > 0) flush_gathered(row);
            block_rows[count++] = {(int) row, bits, rank, masks[row] + index};
        }
        if (count == 0) return;
        KvBlock & block = new_block(BLOCK_CELLS);
        for (int c = 0; c < BLOCK_CELLS; c++) block.cells[c] = cell_at(index + c);
        workspace.block_rows.insert(workspace.block_rows.end(), block_rows, block_rows + count);
        block.end_row += count;
    }

    template <int N>
    [[gnu::noinline]] void score() {
        alignas(64) BlockScores found[N];
        const BlockList & blocks = query_group.rows[0]->blocks;
        for (int r = 0; r < blocks.count; r++) {
            dot<N>(query_group.queries, kv_f32 + blocks.indices[r] * BLOCK_CELLS * width, width, found);
            for (int n = 0; n < N; n++) {
                const BlockRow & block_row = *query_group.rows[n]->block_rows[r];
                float * to = query_group.scores[n] + block_row.rank;
                for (int c = 0; c < BLOCK_CELLS; c += LANES) {
                    const Floats product = load(found[n] + c);
                    const Floats mask = load_f16(block_row.mask + c);
                    const Floats score = inputs.cap == 0.0f
                        ? fma(product, broadcast(inputs.scale), mask)
                        : fma(tanh(multiply(product, broadcast(inputs.scale / inputs.cap))), broadcast(inputs.cap), mask);
                    to += compress_store(to, score, block_row.bits >> c);
                }
            }
        }
    }

    template <int N>
    [[gnu::noinline]] void add_values() {
        alignas(64) float spread[N][MAX_BLOCKS][BLOCK_CELLS];
        Weights weights[N];
        const BlockList & blocks = query_group.rows[0]->blocks;
        for (int n = 0; n < N; n++) {
            for (int r = 0; r < blocks.count; r++) {
                const BlockRow & block_row = *query_group.rows[n]->block_rows[r];
                const float * from = query_group.scores[n] + block_row.rank;
                weights[n][r] = from;
                if (block_row.bits == (1u << blocks.cells[r]) - 1) continue;
                for (int c = 0; c < BLOCK_CELLS; c += LANES) from += expand_load(from, block_row.bits >> c, spread[n][r] + c);
                weights[n][r] = spread[n][r];
            }
        }
        accumulate_values<N>(query_group.values, weights, kv_f32, blocks, value_width);
    }

    /** Runs the micro-kernel for the pending register block of queries. */
    template <bool ARE_KEYS>
    void flush() {
        static_assert(REGISTER_QUERIES == 2 || REGISTER_QUERIES == 4, "each number has its case");
        switch (query_group.count) {
            case 1: ARE_KEYS ? score<1>() : add_values<1>(); break;
            case 2: ARE_KEYS ? score<2>() : add_values<2>(); break;
#if defined(LOOKOUT_AVX512)
            case 3: ARE_KEYS ? score<3>() : add_values<3>(); break;
            case 4: ARE_KEYS ? score<4>() : add_values<4>(); break;
#endif
        }
        query_group.count = 0;
    }

    /** Dequantises the keys (or values) of a few blocks at a time, and computes scores (or weighted sums) with them. */
    template <bool ARE_KEYS>
    void add_blocks(PartialSoftmax & partial) {
        const ggml_tensor * cells = ARE_KEYS ? inputs.k : inputs.v;
        const int64_t block_floats = BLOCK_CELLS * cells->ne[0];
        const size_t max_blocks = std::clamp<int64_t>(KV_BUFFER_FLOATS / block_floats, 1, MAX_BLOCKS);
        for (size_t first = 0; first < workspace.blocks.size(); first += max_blocks) {
            const size_t count = std::min(max_blocks, workspace.blocks.size() - first);
            RowBlocks blocks_of_rows[MAX_QUERIES];
            for (int64_t row = 0; row < item.rows; row++) blocks_of_rows[row].blocks.count = 0;
            for (size_t r = 0; r < count; r++) {
                const KvBlock & block = workspace.blocks[first + r];
                for (int m = block.first_row; m < block.end_row; m++) {
                    const BlockRow & block_row = workspace.block_rows[m];
                    RowBlocks & row_blocks = blocks_of_rows[block_row.row];
                    row_blocks.block_rows[row_blocks.blocks.count] = &block_row;
                    row_blocks.blocks.cells[row_blocks.blocks.count] = block.count;
                    row_blocks.blocks.indices[row_blocks.blocks.count++] = r;
                }
            }
            for (int64_t head = 0; head < item.heads; head++) {
                for (size_t r = 0; r < count; r++) {
                    const KvBlock & block = workspace.blocks[first + r];
                    const char * of_head = (ARE_KEYS ? keys : values) + head * cells->nb[2];
                    dequantize_cells(cells, of_head, block.count, block.cells, kv_f32 + r * block_floats);
                }
                const BlockList * before = nullptr;
                for (int64_t row = 0; row < item.rows; row++) {
                    const RowBlocks & row_blocks = blocks_of_rows[row];
                    if (row_blocks.blocks.count == 0) continue;
                    if (before != nullptr && !(*before == row_blocks.blocks)) flush<ARE_KEYS>();
                    before = &row_blocks.blocks;
                    for (int64_t i = 0; i < inputs.gqa_ratio; i++) {
                        const int64_t number = (head * item.rows + row) * inputs.gqa_ratio + i;
                        query_group.queries[query_group.count] = queries[number];
                        query_group.scores[query_group.count] = scores + number * SCORE_STRIDE;
                        query_group.values[query_group.count] = partial.values + number * value_width;
                        query_group.rows[query_group.count] = &row_blocks;
                        if (++query_group.count == REGISTER_QUERIES) flush<ARE_KEYS>();
                    }
                }
                flush<ARE_KEYS>();
            }
        }
    }

    /** Replaces a query's scores by exp(score - maximum), and stores maximum and sum. */
    void softmax(int64_t number, PartialSoftmax & partial) {
        const int count = taken[number / inputs.gqa_ratio % item.rows];
        float * of_query = scores + number * SCORE_STRIDE;
        for (int c = 0; c < BLOCK_CELLS; c += LANES) store(of_query + count + c, broadcast(-INFINITY));
        Floats score_max = broadcast(-INFINITY);
        for (int c = 0; c < count; c += LANES) score_max = max(score_max, load(of_query + c));
        const float new_max = reduce_max(score_max);
        Floats total = broadcast(0.0f);
        for (int c = 0; c < count; c += LANES) {
            const Floats score = load(of_query + c);
            const Floats exponent = max(subtract(score, broadcast(new_max)), broadcast(MIN_EXPONENT));
            const Floats weight = zero_masked(score, ggml_v_expf(exponent));
            store(of_query + c, weight);
            total = add(total, weight);
        }
        partial.max[number] = new_max;
        partial.sum[number] = reduce_add(total);
    }

public:
    TileAttention(const Inputs & inputs, const WorkItem & item, Workspace & workspace)
        : inputs(inputs), item(item), width(inputs.k->ne[0]), value_width(inputs.v->ne[0]), workspace(workspace),
          index_count(inputs.k->ne[1]) {
        const ggml_tensor * k = inputs.k;
        const ggml_tensor * v = inputs.v;
        const int64_t key_stream = item.stream / (inputs.q->ne[3] / k->ne[3]);
        keys = (const char *) k->data + item.head * k->nb[2] + key_stream * k->nb[3];
        values = (const char *) v->data + item.head * v->nb[2] + key_stream * v->nb[3];
        query_group.count = 0;
        for (int64_t row = 0; row < item.rows; row++) {
            masks[row] = inputs.row_mask(item.row + row, item.stream);
            next_index[row] = 0;
            gathered[row].count = 0;
        }
        inputs.each_query(item, [&](int64_t i, int64_t row, int64_t head) { queries[i] = inputs.query(row, head, item.stream); });
        workspace.order.clear();
        const uint64_t * stamps = inputs.k->ne[3] == 1 ? lookout_cell_stamps(inputs.k) : nullptr;
        if (stamps != nullptr && !is_in_order(stamps)) sort(stamps);
    }

    /** Computes the next split. @return whether any row has cells in it. */
    bool compute_split(PartialSoftmax & partial) {
        const int64_t queries = item.heads * item.rows * inputs.gqa_ratio;
        plan_blocks();
        if (workspace.blocks.empty()) {
            std::fill(partial.sum, partial.sum + queries, 0.0f);
            return false;
        }
        add_blocks<true>(partial);
        for (int64_t i = 0; i < queries; i++) softmax(i, partial);
        std::fill(partial.values, partial.values + queries * value_width, 0.0f);
        add_blocks<false>(partial);
        return true;
    }

    /** Skips the next split. */
    void skip_split() {
        for (int64_t row = 0; row < item.rows; row++) {
            taken[row] = 0;
            int64_t index = next_index[row] / BLOCK_CELLS * BLOCK_CELLS;
            for (; index < index_count && taken[row] < SPLIT_CELLS; index += BLOCK_CELLS) take(row, index);
            if (taken[row] < SPLIT_CELLS) next_index[row] = index_count;
        }
    }
};

struct Attention : Inputs {
    using Inputs::Inputs;

    /** Threads divide the work items, or the splits of all items where there are fewer items than threads. */
    void run(const ggml_compute_params * params) const {
        static thread_local Workspace workspace;
        std::vector<WorkItem> items;
        each_item(tiles(params->nth), [&](const WorkItem & item) { items.push_back(item); });
        const int64_t splits = (k->ne[1] + SPLIT_CELLS - 1) / SPLIT_CELLS;
        if (splits > 1 && (int64_t) items.size() < params->nth) return run_splits(params, items, splits, workspace);
        const int64_t width = v->ne[0];
        PartialSoftmax partial, split;
        for (size_t i = params->ith; i < items.size(); i += params->nth) {
            TileAttention attention(*this, items[i], workspace);
            attention.compute_split(partial);
            while (attention.compute_split(split)) {
                each_query(items[i], [&](int64_t n, int64_t, int64_t) {
                    merge_split(partial.max[n], partial.sum[n], partial.values + n * width, split.max[n], split.sum[n],
                                split.values + n * width, width);
                });
            }
            each_query(items[i], [&](int64_t n, int64_t row, int64_t head) {
                normalize(partial.max[n], partial.sum[n], partial.values + n * width, head, result(row, head, items[i].stream));
            });
        }
    }

private:
    void normalize(float max, float total, const float * values, int64_t head, float * to) const {
        if (total == 0.0f) return (void) std::fill(to, to + v->ne[0], 0.0f);
        float inverse = 1.0f / total;
        if (sinks != nullptr) {
            const float new_max = std::max(max, sinks[head]);
            const float rescale = expf(max - new_max);
            inverse = rescale / (total * rescale + expf(sinks[head] - new_max));
        }
        for (int64_t d = 0; d < v->ne[0]; d++) to[d] = values[d] * inverse;
    }

    void run_splits(const ggml_compute_params * params, const std::vector<WorkItem> & items, int64_t splits,
                    Workspace & workspace) const {
        static thread_local AlignedBuffer<float> shared_buffer;
        const int64_t width = v->ne[0];
        const int64_t record = 2 + width;  // Maximum, sum, values.
        const int64_t queries = q->ne[1] * q->ne[2] * q->ne[3];
        auto * records = (float *) params->wdata;
        if (params->wsize / sizeof(float) < (size_t) (queries * splits * record)) {
            if (params->ith == 0) *(float **) params->wdata = shared_buffer.reserve(queries * splits * record);
            ggml_barrier(params->threadpool);
            records = *(float **) params->wdata;
        }
        const auto record_of = [&](int64_t split, int64_t row, int64_t head, int64_t stream) {
            return records + (((split * q->ne[3] + stream) * q->ne[1] + row) * q->ne[2] + head) * record;
        };
        PartialSoftmax partial;
        int64_t job = 0;
        for (const WorkItem & item : items) {
            TileAttention attention(*this, item, workspace);
            for (int64_t split = 0; split < splits; split++, job++) {
                if (job % params->nth != params->ith) {
                    attention.skip_split();
                    continue;
                }
                attention.compute_split(partial);
                each_query(item, [&](int64_t i, int64_t row, int64_t head) {
                    float * to = record_of(split, row, head, item.stream);
                    to[0] = partial.max[i];
                    to[1] = partial.sum[i];
                    memcpy(to + 2, partial.values + i * width, width * sizeof(float));
                });
            }
        }
        ggml_barrier(params->threadpool);
        for (int64_t query = params->ith; query < queries; query += params->nth) {
            const int64_t head = query % q->ne[2];
            const int64_t row = query / q->ne[2] % q->ne[1];
            const int64_t stream = query / q->ne[2] / q->ne[1];
            float * first = record_of(0, row, head, stream);
            for (int64_t n = 1; n < splits; n++) {
                const float * split = record_of(n, row, head, stream);
                merge_split(first[0], first[1], first + 2, split[0], split[1], split + 2, width);
            }
            normalize(first[0], first[1], first + 2, head, result(row, head, stream));
        }
    }
};

}  // namespace

#endif
