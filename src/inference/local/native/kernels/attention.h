// Attention over a KV cache for x86 with AVX2 or AVX-512; attention.cpp puts it in place of ggml's.
//
// To decode the next tokens of running completions, ggml computes one query against one cell at a time, with a scalar
// exponential for each, and keeps the sums in f16. For a small model with some context, this takes most of a step. For
// prompts it works on tiles of rows, and computes each cell that any row of a tile sees for all of its rows.
//
// Here, sixteen cells at a time (of f16 or Q8_0) are converted to f32, once for all the rows and heads that read them. Cells
// that a row must not see are skipped sixteen at a time. Where sequences decode together, their new cells alternate, and a
// row sees one or two of sixteen: these are gathered until there are sixteen. All sums are in f32 (online softmax: Dao et
// al., FlashAttention, 2022). A row's result does not depend on the other rows of the batch.

#pragma once

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml-cpu-impl.h"
#include "vec.h"

#include "floats.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#if defined(LOOKOUT_FLOATS)
#define LOOKOUT_ATTENTION

namespace {

/** In a mask, for a cell that a row must not see: minus infinity in f16. */
constexpr ggml_fp16_t HIDDEN = 0xFC00;
/** Cells that are processed together. */
constexpr int CELLS = 16;
/**
 * Cells that are skipped together when no row sees any. For a short prompt beside a long one, that is most of the
 * cache.
 */
constexpr int BLOCK = 8 * CELLS;
/** Maximum queries (a row and a head) in a tile; they share the cells converted to f32. */
constexpr int QUERIES = 32;
/** Maximum width of a key or value. */
constexpr int WIDEST = 256;
/** A row that sees fewer of CELLS cells gathers them: it then reads fewer cells, but converts them for itself alone. */
constexpr int FEW = CELLS / 2;
/** Minimum cells in a thread's part. */
constexpr int64_t FEWEST_CELLS = 256;

/** The sums over the lanes of each of eight vectors. */
inline __m256 lane_sums(const Floats * x) {
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(halved(x[0]), halved(x[1])), _mm256_hadd_ps(halved(x[2]), halved(x[3])));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(halved(x[4]), halved(x[5])), _mm256_hadd_ps(halved(x[6]), halved(x[7])));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

/** `scores[c]` = query . keys[c], for CELLS keys. */
inline void dot(const float * query, const float * keys, int64_t width, float * scores) {
    for (int first = 0; first < CELLS; first += 8) {
        const float * rows = keys + first * width;
        Floats sums[8];
        for (int c = 0; c < 8; c++) sums[c] = all(0.0f);
        for (int64_t d = 0; d < width; d += LANES) {
            const Floats q = load(query + d);
            for (int c = 0; c < 8; c++) sums[c] = fma(q, load(rows + c * width + d), sums[c]);
        }
        _mm256_storeu_ps(scores + first, lane_sums(sums));
    }
}

/** `out` = `out` * `kept` + the sum of weights[c] * values[c] over CELLS values. */
inline void add_weighted(float * out, float kept, const float * weights, const float * values, int64_t width) {
    constexpr int TOGETHER = 4;
    int64_t d = 0;
    for (; d + TOGETHER * LANES <= width; d += TOGETHER * LANES) {
        Floats sums[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) sums[i] = multiply(load(out + d + i * LANES), all(kept));
        for (int c = 0; c < CELLS; c++) {
            const Floats weight = all(weights[c]);
            for (int i = 0; i < TOGETHER; i++) sums[i] = fma(weight, load(values + c * width + d + i * LANES), sums[i]);
        }
        for (int i = 0; i < TOGETHER; i++) store(out + d + i * LANES, sums[i]);
    }
    for (; d < width; d += LANES) {
        Floats total = multiply(load(out + d), all(kept));
        for (int c = 0; c < CELLS; c++) total = fma(all(weights[c]), load(values + c * width + d), total);
        store(out + d, total);
    }
}

inline void halves_to_floats(const char * row, int64_t width, float * out) {
    const auto * halves = (const ggml_fp16_t *) row;
    for (int64_t d = 0; d < width; d += LANES) store(out + d, from_halves(halves + d));
}

/** The same for Q8_0: blocks of 32 numbers of 8 bits with a factor in f16. */
inline void blocks_to_floats(const char * row, int64_t width, float * out) {
    const auto * blocks = (const block_q8_0 *) row;
    for (int64_t b = 0; b < width / QK8_0; b++) {
        const Floats factor = all(_cvtsh_ss(blocks[b].d));
        for (int d = 0; d < QK8_0; d += LANES) store(out + b * QK8_0 + d, multiply(factor, from_bytes(blocks[b].qs + d)));
    }
}

/** Whether a tensor holds rows of f16 or of Q8_0 that fit. */
inline bool is_readable(const ggml_tensor * cells) {
    if (cells->ne[0] > WIDEST) return false;
    if (cells->type == GGML_TYPE_F16) return cells->ne[0] % 16 == 0 && cells->nb[0] == sizeof(ggml_fp16_t);
    return cells->type == GGML_TYPE_Q8_0 && cells->ne[0] % QK8_0 == 0 && cells->nb[0] == sizeof(block_q8_0);
}

/** Converts the rows of a head's cells; `number(c)` is the c-th of them. */
template <typename Number>
inline void to_floats(const ggml_tensor * cells, const char * head, int count, Number number, float * out) {
    const int64_t width = cells->ne[0];
    const auto row = [&](int c) { return head + number(c) * cells->nb[1]; };
    if (cells->type == GGML_TYPE_F16) {
        for (int c = 0; c < count; c++) halves_to_floats(row(c), width, out + c * width);
    } else {
        for (int c = 0; c < count; c++) blocks_to_floats(row(c), width, out + c * width);
    }
}

/** Which of CELLS cells the mask hides: two equal bits for each. */
inline uint32_t hidden_bits(const ggml_fp16_t * mask) {
    const __m256i hidden = _mm256_set1_epi16((short) HIDDEN);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) mask), hidden));
}

/** The same for BLOCK cells. */
inline bool is_block_hidden(const ggml_fp16_t * mask) {
    const __m256i minus_infinity = _mm256_set1_epi16((short) HIDDEN);
    __m256i hidden = _mm256_set1_epi16(-1);
    for (int c = 0; c < BLOCK; c += 16) {
        hidden = _mm256_and_si256(hidden, _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (mask + c)), minus_infinity));
    }
    return _mm256_movemask_epi8(hidden) == -1;
}

/**
 * State of the online softmax of each query: the largest score, the sum of exp(score - largest), and the values
 * weighted by it.
 */
struct Found {
    float largest[QUERIES];
    float total[QUERIES];
    float values[QUERIES * WIDEST];
};

/** Cells that a row sees among others that it does not, with their values in the mask. */
struct Strays {
    int count;
    int64_t cells[CELLS];
    ggml_fp16_t shown[CELLS];
};

struct Attention {
    const ggml_tensor * q;
    const ggml_tensor * k;
    const ggml_tensor * v;
    const ggml_tensor * mask;
    ggml_tensor * out;
    float scale;
    int64_t group;  // Query heads that read one key head.
    int64_t tile;  // Rows that are processed together.
    /**
     * Key heads that are processed together. In memory, a cell's heads lie side by side: of one head alone, every cell would
     * be a place far from the last, which the processor does not read ahead.
     */
    int64_t heads;

    /** @param threads that share the work. */
    Attention(ggml_tensor * dst, int64_t threads)
        : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), out(dst), group(q->ne[2] / k->ne[2]),
          tile(std::max<int64_t>(1, QUERIES / group)) {
        memcpy(&scale, dst->op_params, sizeof(float));
        const int64_t fit = QUERIES / (std::min(tile, q->ne[1]) * group);
        heads = mask == nullptr || mask->ne[2] != 1 ? 1 : std::max<int64_t>(1, std::min(fit, k->ne[2]));
        // Every thread has some before cells are split into parts, whose sums are rounded differently.
        while (heads > 1 && head_blocks() < std::min(threads, k->ne[2])) heads--;
    }

    bool is_ours() const {
        float bias_and_cap[2];
        memcpy(bias_and_cap, (const float *) out->op_params + 1, sizeof(bias_and_cap));
        return mask != nullptr && out->src[4] == nullptr && bias_and_cap[0] == 0.0f && bias_and_cap[1] == 0.0f &&
            q->type == GGML_TYPE_F32 && mask->type == GGML_TYPE_F16 && is_readable(k) && is_readable(v) &&
            k->ne[1] % CELLS == 0 && group <= QUERIES && k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3] &&
            q->nb[0] == sizeof(float) && mask->nb[0] == sizeof(ggml_fp16_t);
    }

    int64_t tiles() const { return (q->ne[1] + tile - 1) / tile; }
    int64_t head_blocks() const { return (k->ne[2] + heads - 1) / heads; }
    int64_t items() const { return q->ne[3] * head_blocks() * tiles(); }
    /** Queries of an item at most. */
    int64_t slots() const { return heads * tile * group; }
    int64_t first_row(int64_t item) const { return item % tiles() * tile; }
    int64_t rows_of(int64_t item) const { return std::min(tile, q->ne[1] - first_row(item)); }
    int64_t first_head(int64_t item) const { return item / tiles() % head_blocks() * heads; }
    int64_t heads_of(int64_t item) const { return std::min(heads, k->ne[2] - first_head(item)); }
    int64_t stream_of(int64_t item) const { return item / tiles() / head_blocks(); }
    int64_t queries_of(int64_t item) const { return heads_of(item) * rows_of(item) * group; }

    const float * query(int64_t row, int64_t head, int64_t stream) const {
        return (const float *) ((const char *) q->data + row * q->nb[1] + head * q->nb[2] + stream * q->nb[3]);
    }

    const ggml_fp16_t * seen(int64_t row, int64_t head, int64_t stream) const {
        return (const ggml_fp16_t *) ((const char *) mask->data + row * mask->nb[1] + head % mask->ne[2] * mask->nb[2] +
            stream % mask->ne[3] * mask->nb[3]);
    }

    /** In the result, the dimensions of rows and heads are swapped. */
    float * result(int64_t row, int64_t head, int64_t stream) const {
        return (float *) ((char *) out->data + ((stream * q->ne[1] + row) * q->ne[2] + head) * out->nb[1]);
    }

    /** Processes one tile of rows and the heads of some key heads over the cells from `start` up to `end`. */
    void search(int64_t item, int64_t start, int64_t end, Found & found) const {
        const int64_t row0 = first_row(item);
        const int64_t rows = rows_of(item);
        const int64_t head0 = first_head(item);
        const int64_t heads = heads_of(item);
        const int64_t stream = stream_of(item);
        const int64_t key_stream = stream / (q->ne[3] / k->ne[3]);
        const char * keys = (const char *) k->data + head0 * k->nb[2] + key_stream * k->nb[3];
        const char * values = (const char *) v->data + head0 * v->nb[2] + key_stream * v->nb[3];
        const int64_t width = k->ne[0];
        const int64_t value_width = v->ne[0];
        for (int64_t i = 0; i < queries_of(item); i++) {
            found.largest[i] = -INFINITY;
            found.total[i] = 0.0f;
        }
        memset(found.values, 0, queries_of(item) * value_width * sizeof(float));

        alignas(64) float key_floats[CELLS * WIDEST];
        alignas(64) float value_floats[CELLS * WIDEST];
        const auto read = [&](int64_t head, int count, auto number, float * k_floats, float * v_floats) {
            to_floats(k, keys + head * k->nb[2], count, number, k_floats);
            to_floats(v, values + head * v->nb[2], count, number, v_floats);
        };
        const auto add = [&](int64_t head, int64_t row, int64_t member, const ggml_fp16_t * shown, const float * k_floats,
                             const float * v_floats) {
            alignas(64) float scores[CELLS];
            dot(query(row0 + row, (head0 + head) * group + member, stream), k_floats, width, scores);
            weigh(shown, scores, v_floats, value_width, (head * rows + row) * group + member, found);
        };
        Strays strays[QUERIES];
        for (int64_t row = 0; row < rows; row++) strays[row].count = 0;
        const auto add_strays = [&](int64_t row) {
            alignas(64) float stray_keys[CELLS * WIDEST];
            alignas(64) float stray_values[CELLS * WIDEST];
            Strays & of_row = strays[row];
            const int missing = CELLS - of_row.count;
            std::fill(of_row.shown + of_row.count, of_row.shown + CELLS, HIDDEN);
            for (int64_t head = 0; head < heads; head++) {
                read(head, of_row.count, [&](int c) { return of_row.cells[c]; }, stray_keys, stray_values);
                memset(stray_keys + of_row.count * width, 0, missing * width * sizeof(float));
                memset(stray_values + of_row.count * value_width, 0, missing * value_width * sizeof(float));
                for (int64_t member = 0; member < group; member++) add(head, row, member, of_row.shown, stray_keys, stray_values);
            }
            of_row.count = 0;
        };
        /** Whether a row, by its mask, sees so few of the cells that they are gathered; of all heads the same then. */
        const auto gather = [&](int64_t row, int64_t cell, const ggml_fp16_t * shown) {
            uint32_t seen_bits = ~hidden_bits(shown);
            if (mask->ne[2] != 1 || __builtin_popcount(seen_bits) / 2 >= FEW) return false;
            for (; seen_bits != 0; seen_bits &= seen_bits - 1, seen_bits &= seen_bits - 1) {
                const int c = __builtin_ctz(seen_bits) / 2;
                Strays & of_row = strays[row];
                of_row.cells[of_row.count] = cell + c;
                of_row.shown[of_row.count] = shown[c];
                if (++of_row.count == CELLS) add_strays(row);
            }
            return true;
        };
        for (int64_t cell = start; cell < end; cell += CELLS) {
            if (cell % BLOCK == 0 && cell + BLOCK <= end && sees_none(row0, rows, cell, stream)) {
                cell += BLOCK - CELLS;
                continue;
            }
            bool sees[QUERIES];
            bool is_seen = false;
            for (int64_t row = 0; row < rows; row++) {
                const ggml_fp16_t * shown = seen(row0 + row, head0 * group, stream) + cell;
                sees[row] = !gather(row, cell, shown);
                is_seen = is_seen || sees[row];
            }
            if (!is_seen) continue;
            for (int64_t head = 0; head < heads; head++) {
                bool is_read = false;
                for (int64_t row = 0; row < rows; row++) {
                    if (!sees[row]) continue;
                    for (int64_t member = 0; member < group; member++) {
                        const ggml_fp16_t * shown = seen(row0 + row, (head0 + head) * group + member, stream) + cell;
                        if (mask->ne[2] != 1 && hidden_bits(shown) == UINT32_MAX) continue;
                        if (!is_read) read(head, CELLS, [&](int c) { return cell + c; }, key_floats, value_floats);
                        is_read = true;
                        add(head, row, member, shown, key_floats, value_floats);
                    }
                }
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            if (strays[row].count > 0) add_strays(row);
        }
    }

    /** Whether the mask hides the BLOCK cells from `cell` from every row and head. */
    bool sees_none(int64_t row0, int64_t rows, int64_t cell, int64_t stream) const {
        if (mask->ne[2] != 1) return false;
        for (int64_t row = 0; row < rows; row++) {
            if (!is_block_hidden(seen(row0 + row, 0, stream) + cell)) return false;
        }
        return true;
    }

    /** Adds CELLS cells to a query's online softmax. */
    void weigh(const ggml_fp16_t * shown, float * scores, const float * values, int64_t width, int64_t query, Found & found) const {
        Floats largest_here = all(-INFINITY);
        for (int c = 0; c < CELLS; c += LANES) {
            const Floats score = fma(load(scores + c), all(scale), from_halves(shown + c));
            store(scores + c, score);
            largest_here = larger(largest_here, score);
        }
        const float before = found.largest[query];
        const float now = std::max(before, largest(largest_here));
        if (now == -INFINITY) return;
        const float kept = before == now ? 1.0f : expf(before - now);
        float total = found.total[query] * kept;
        for (int c = 0; c < CELLS; c += LANES) {
            const Floats score = load(scores + c);
            const Floats exponent = larger(subtract(score, all(now)), all(SMALLEST_EXPONENT));
            const Floats weight = where_seen(score, ggml_v_expf(exponent));
            store(scores + c, weight);
            total += sum(weight);
        }
        found.largest[query] = now;
        found.total[query] = total;
        add_weighted(found.values + query * width, kept, scores, values, width);
    }

    /** The result of one query of an item. */
    float * result_of(int64_t item, int64_t query) const {
        const int64_t rows = rows_of(item);
        const int64_t row = first_row(item) + query / group % rows;
        const int64_t head = (first_head(item) + query / group / rows) * group + query % group;
        return result(row, head, stream_of(item));
    }

    void finish(int64_t item, const Found & found) const {
        const int64_t width = v->ne[0];
        for (int64_t i = 0; i < queries_of(item); i++) {
            const float inverse = found.total[i] == 0.0f ? 0.0f : 1.0f / found.total[i];
            float * to = result_of(item, i);
            for (int64_t d = 0; d < width; d++) to[d] = found.values[i * width + d] * inverse;
        }
    }

    /** Each thread takes a share of the items. With fewer items than threads, the items' cells are split into parts. */
    void run(const ggml_compute_params * params) const {
        const int64_t cells = k->ne[1];
        const int64_t width = v->ne[0];
        const int64_t record = 2 + width;  // Largest, total, values.
        int64_t parts = std::min((params->nth + items() - 1) / items(), std::max<int64_t>(1, cells / FEWEST_CELLS));
        const int64_t room = (int64_t) (params->wsize / sizeof(float)) / (items() * slots() * record);
        if (room < parts) parts = 1;
        const int64_t part_cells = ((cells + parts - 1) / parts + CELLS - 1) / CELLS * CELLS;
        Found found;
        auto * records = (float *) params->wdata;
        for (int64_t job = params->ith; job < items() * parts; job += params->nth) {
            const int64_t item = job / parts;
            const int64_t start = std::min(cells, job % parts * part_cells);
            search(item, start, std::min(cells, start + part_cells), found);
            if (parts == 1) {
                finish(item, found);
                continue;
            }
            for (int64_t i = 0; i < queries_of(item); i++) {
                float * to = records + (job * slots() + i) * record;
                to[0] = found.largest[i];
                to[1] = found.total[i];
                memcpy(to + 2, found.values + i * width, width * sizeof(float));
            }
        }
        if (parts == 1) return;
        ggml_barrier(params->threadpool);
        for (int64_t item = params->ith; item < items(); item += params->nth) {
            for (int64_t i = 0; i < queries_of(item); i++) {
                const auto part = [&](int64_t n) { return records + ((item * parts + n) * slots() + i) * record; };
                float now = -INFINITY;
                for (int64_t n = 0; n < parts; n++) now = std::max(now, part(n)[0]);
                float total = 0.0f;
                float * to = result_of(item, i);
                std::fill(to, to + width, 0.0f);
                for (int64_t n = 0; n < parts; n++) {
                    const float * from = part(n);
                    if (from[1] == 0.0f) continue;
                    const float kept = expf(from[0] - now);
                    total += from[1] * kept;
                    for (int64_t d = 0; d < width; d++) to[d] += from[2 + d] * kept;
                }
                for (int64_t d = 0; d < width && total != 0.0f; d++) to[d] /= total;
            }
        }
    }
};

}  // namespace

#endif
