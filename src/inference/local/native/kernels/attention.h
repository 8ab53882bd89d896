// Attention over a KV cache for x86 with AVX2 or AVX-512; attention.cpp puts it in place of ggml's.
//
// To decode the next tokens of running completions, ggml computes one query against one cell at a time, with a scalar
// exponential for each, and keeps the sums in f16. For a small model with some context, this takes most of a step. For
// prompts it works on tiles of rows, and computes each cell that any row of a tile sees for all of its rows.
//
// Here, runs of sixteen cells (of f16 or Q8_0) are converted to f32, once for all rows of a tile: rows that see mostly the same
// cells. Of several queries, each key and each value is read once. Cells that a row must not see are skipped a run at a time.
// Where sequences decode together, their new cells alternate, and a row sees one or two of sixteen: these are gathered until
// there are sixteen. All sums are in f32 (online softmax: Dao et al., FlashAttention, 2022). A row's result does not depend on
// the other rows of the batch.

#pragma once

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml-cpu-impl.h"
#include "vec.h"

#include "floats.h"
#include "registers.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#if defined(LOOKOUT_FLOATS)
#define LOOKOUT_ATTENTION

namespace {

/** In a mask, for a cell that a row must not see: minus infinity in f16. */
constexpr ggml_fp16_t HIDDEN = 0xFC00;
/** Cells of a run. */
constexpr int CELLS = 16;
/** Cells that a row skips together. For a short prompt beside a long one, that is most of the cache. */
constexpr int BLOCK = 8 * CELLS;
/** Maximum queries (a row and a head) in a tile; they share the cells converted to f32. */
constexpr int QUERIES = 32;
/** Maximum width of a key or value. */
constexpr int WIDEST = 256;
/** Runs that are processed together: those from a multiple of so many cells. Reads rely on it (`BLOCK_CELLS`). */
constexpr int MOST_RUNS = 2;
/** Numbers of f32 that the keys of these runs have, and the values, so that they stay in a small L1 cache. */
constexpr int TOGETHER_FLOATS = 4096;
static_assert(TOGETHER_FLOATS >= CELLS * WIDEST, "one run of the widest cells fits");
/** How far ahead the processor is to fetch cells. */
constexpr int64_t AHEAD = 3 * CELLS;
/** Queries with which a key, and a value, is multiplied while it is in a register: as many as there are registers for. */
#if defined(LOOKOUT_WIDE)
constexpr int QUERIES_TOGETHER = 4;
#else
constexpr int QUERIES_TOGETHER = 2;
#endif
/** A row that sees fewer of CELLS cells gathers them: it then reads fewer cells, but converts them for itself alone. */
constexpr int FEW = CELLS / 2;
/** Minimum cells in a thread's part. */
constexpr int64_t FEWEST_CELLS = 256;

/** Cells whose products with a query are summed up together. */
constexpr int SUMMED = 4;

/** For SUMMED cells each, sums over some of the lanes. `finish` adds up the others, for CELLS. */
#if defined(LOOKOUT_WIDE)
using PartialSums = Floats;
inline PartialSums lane_sums(Floats a, Floats b, Floats c, Floats d) {
    const __m512d ab = _mm512_castps_pd(add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    const __m512d cd = _mm512_castps_pd(add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    return add(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
}
inline void finish(const PartialSums * sums, float * out) {
    const auto pairs = [](Floats a, Floats b) { return add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD)); };
    store(out, pairs(pairs(sums[0], sums[1]), pairs(sums[2], sums[3])));
}
#else
using PartialSums = __m128;
inline PartialSums lane_sums(Floats a, Floats b, Floats c, Floats d) {
    const Floats halves = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
}
inline void finish(const PartialSums * sums, float * out) {
    for (int i = 0; i < CELLS / SUMMED; i++) _mm_storeu_ps(out + i * SUMMED, sums[i]);
}
#endif

/** Of a query with the keys of some runs; later the weights of their values. */
using Scores = float[MOST_RUNS * CELLS];

// The sums of these functions stay in registers only as parts of their caller: hence always_inline.

/** `scores[n][first_score + c]` = queries[n] . keys[c], for N queries and CELLS keys. */
template <int N>
[[gnu::always_inline]] inline void dot(const float * const * queries, const float * keys, int64_t width, Scores * scores,
                                       int64_t first_score) {
    PartialSums sums[N][CELLS / SUMMED];
    for (int first = 0; first < CELLS; first += SUMMED) {
        const float * rows = keys + first * width;
        Floats products[N][SUMMED];
        for (int n = 0; n < N; n++) {
            for (int c = 0; c < SUMMED; c++) products[n][c] = all(0.0f);
        }
        for (int64_t d = 0; d < width; d += LANES) {
            Floats q[N];
            for (int n = 0; n < N; n++) q[n] = kept_in_register(load(queries[n] + d));
            for (int c = 0; c < SUMMED; c++) {
                const Floats key = kept_in_register(load(rows + c * width + d));
                for (int n = 0; n < N; n++) products[n][c] = fma(q[n], key, products[n][c]);
            }
        }
        for (int n = 0; n < N; n++) {
            sums[n][first / SUMMED] = lane_sums(products[n][0], products[n][1], products[n][2], products[n][3]);
        }
    }
    for (int n = 0; n < N; n++) finish(sums[n], scores[n] + first_score);
}

/** Some of the runs that were converted together, in order. */
struct Runs {
    int count;
    int numbers[MOST_RUNS];

    bool operator==(const Runs & other) const { return count == other.count && std::equal(numbers, numbers + count, other.numbers); }
};

/** A part of `add_weighted`: so many vectors of the results. */
template <int N, int VECTORS>
[[gnu::always_inline]] inline void add_weighted_vectors(float * const * out, const float * kept, const Scores * weights,
                                                        const float * values, const Runs & runs, int64_t width) {
    Floats sums[N][VECTORS];
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) sums[n][i] = multiply(load(out[n] + i * LANES), all(kept[n]));
    }
    for (int r = 0; r < runs.count; r++) {
        const float * rows = values + runs.numbers[r] * CELLS * width;
        for (int c = 0; c < CELLS; c++) {
            Floats value[VECTORS];
            for (int i = 0; i < VECTORS; i++) value[i] = kept_in_register(load(rows + c * width + i * LANES));
            for (int n = 0; n < N; n++) {
                const Floats weight = all(weights[n][r * CELLS + c]);
                for (int i = 0; i < VECTORS; i++) sums[n][i] = fma(weight, value[i], sums[n][i]);
            }
        }
    }
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) store(out[n] + i * LANES, sums[n][i]);
    }
}

/** `out[n]` = out[n] * kept[n] + the sum of weights[n][c] * values[c] over the values of the runs, for N queries. */
template <int N>
[[gnu::always_inline]] inline void add_weighted(float * const * out, const float * kept, const Scores * weights,
                                                const float * values, const Runs & runs, int64_t width) {
    float * at[N];
    for (int n = 0; n < N; n++) at[n] = out[n];
    int64_t d = 0;
    const auto step = [&](int vectors) {
        for (int n = 0; n < N; n++) at[n] += vectors * LANES;
        d += vectors * LANES;
    };
    for (; N == 1 && d + 8 * LANES <= width; step(8)) add_weighted_vectors<N, 8>(at, kept, weights, values + d, runs, width);
    for (; d + 4 * LANES <= width; step(4)) add_weighted_vectors<N, 4>(at, kept, weights, values + d, runs, width);
    for (; d < width; step(1)) add_weighted_vectors<N, 1>(at, kept, weights, values + d, runs, width);
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

/**
 * Has the processor fetch a row that is read soon: the rows of a head lie too far apart for it to see that they will be read.
 */
inline void ask_for(const char * row, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T1);
}

/** Bytes of a head's row. */
inline int64_t row_bytes(const ggml_tensor * cells) {
    return cells->type == GGML_TYPE_F16 ? cells->ne[0] * sizeof(ggml_fp16_t) : cells->ne[0] / QK8_0 * sizeof(block_q8_0);
}

/**
 * Converts the rows of a head's cells; `number(c)` is the c-th of them.
 * @param ahead after how many cells those follow that are read soon; with 0, none are.
 */
template <typename Number>
inline void to_floats(const ggml_tensor * cells, const char * head, int count, Number number, float * out, int64_t ahead = 0) {
    const int64_t width = cells->ne[0];
    const int64_t bytes = ahead > 0 ? row_bytes(cells) : 0;
    const bool is_halves = cells->type == GGML_TYPE_F16;
    for (int c = 0; c < count; c++) {
        const char * row = head + number(c) * cells->nb[1];
        ask_for(row + ahead * cells->nb[1], bytes);
        if (is_halves) halves_to_floats(row, width, out + c * width);
        else blocks_to_floats(row, width, out + c * width);
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

/** Queries that are processed together: each with its row's mask and its number in `Found`. */
struct Several {
    int count;
    const float * queries[QUERIES_TOGETHER];
    const ggml_fp16_t * shown[QUERIES_TOGETHER];
    int64_t numbers[QUERIES_TOGETHER];
};

/** Rows that follow each other and see mostly the same cells. */
struct Tile {
    int64_t row;
    int64_t rows;
    /**
     * Key heads that are processed together. In memory, a cell's heads lie side by side: of one head alone, every cell would
     * be a place far from the last, which the processor does not read ahead.
     */
    int64_t heads;
};

/** The work of a thread at a time: a tile's queries of some key heads, over some cells. */
struct Item {
    int64_t stream;
    int64_t row;
    int64_t rows;
    int64_t head;
    int64_t heads;
    int64_t start;
    int64_t end;
};

/** Queries, keys and values: how they lie in memory, and how threads share the work. */
struct Inputs {
    /** Cells by which two rows are compared. */
    static constexpr int64_t PROBES = 64;

    const ggml_tensor * q;
    const ggml_tensor * k;
    const ggml_tensor * v;
    const ggml_tensor * mask;
    ggml_tensor * out;
    float scale;
    int64_t group;  // Query heads that read one key head.
    int64_t most_rows;  // Of a tile.

    explicit Inputs(ggml_tensor * dst)
        : q(dst->src[0]), k(dst->src[1]), v(dst->src[2]), mask(dst->src[3]), out(dst), group(q->ne[2] / k->ne[2]),
          most_rows(std::max<int64_t>(1, QUERIES / group)) {
        memcpy(&scale, dst->op_params, sizeof(float));
    }

    bool is_ours() const {
        float bias_and_cap[2];
        memcpy(bias_and_cap, (const float *) out->op_params + 1, sizeof(bias_and_cap));
        return mask != nullptr && out->src[4] == nullptr && bias_and_cap[0] == 0.0f && bias_and_cap[1] == 0.0f &&
            q->type == GGML_TYPE_F32 && mask->type == GGML_TYPE_F16 && is_readable(k) && is_readable(v) &&
            k->ne[1] % CELLS == 0 && group <= QUERIES && k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3] &&
            q->nb[0] == sizeof(float) && mask->nb[0] == sizeof(ggml_fp16_t) && mask->ne[2] == 1;
    }

    const float * query(int64_t row, int64_t head, int64_t stream) const {
        return (const float *) ((const char *) q->data + row * q->nb[1] + head * q->nb[2] + stream * q->nb[3]);
    }

    /** A row's mask, which is that of all heads. */
    const ggml_fp16_t * seen(int64_t row, int64_t stream) const {
        return (const ggml_fp16_t *) ((const char *) mask->data + row * mask->nb[1] + stream % mask->ne[3] * mask->nb[3]);
    }

    /** In the result, the dimensions of rows and heads are swapped. */
    float * result(int64_t row, int64_t head, int64_t stream) const {
        return (float *) ((char *) out->data + ((stream * q->ne[1] + row) * q->ne[2] + head) * out->nb[1]);
    }

    /** Calls a function with some cells, spread over all of them. */
    template <typename Function>
    void each_probe(Function function) const {
        const int64_t cells = k->ne[1];
        const int64_t stride = std::max<int64_t>(CELLS, cells / PROBES);
        // New cells of sequences that are decoded together alternate: probes at equal distances could all be of one.
        for (int64_t i = 0; i * stride < cells; i++) function(std::min(i * stride + i % CELLS, cells - 1));
    }

    bool sees(int64_t row, int64_t cell) const { return seen(row, 0)[cell] != HIDDEN; }

    /** Whether two rows see mostly the same cells, as those of a prompt do, and of sequences with a common beginning. */
    bool share(int64_t a, int64_t b) const {
        int64_t by_a = 0;
        int64_t by_b = 0;
        int64_t by_both = 0;
        each_probe([&](int64_t cell) {
            by_a += sees(a, cell);
            by_b += sees(b, cell);
            by_both += sees(a, cell) && sees(b, cell);
        });
        return 2 * by_both >= std::max(by_a, by_b);
    }

    /** Whether threads that take tiles in turn have about as much to do. */
    bool are_even(const std::vector<Tile> & tiles, int64_t threads) const {
        if ((int64_t) tiles.size() < threads) return false;
        std::vector<int64_t> work(threads);
        for (size_t t = 0; t < tiles.size(); t++) {
            int64_t seen_by_first = 1;
            each_probe([&](int64_t cell) { seen_by_first += sees(tiles[t].row, cell); });
            work[t % threads] += tiles[t].rows * seen_by_first;
        }
        const int64_t most = *std::max_element(work.begin(), work.end());
        const int64_t total = std::accumulate(work.begin(), work.end(), (int64_t) 0);
        return 4 * most * threads <= 5 * total;
    }

    /** The rows in tiles, so that cells are converted once for all rows of a tile, and each row skips those of others. */
    std::vector<Tile> tiles(int64_t threads) const {
        std::vector<Tile> found;
        for (int64_t row = 0; row < q->ne[1];) {
            int64_t end = std::min(q->ne[1], row + most_rows);
            if (!share(row, end - 1)) {
                for (end = row + 1; share(row, end);) end++;
            }
            found.push_back({row, end - row, 1});
            row = end;
        }
        // Where one sequence is longer than the others, threads share its heads.
        const int64_t blocks = are_even(found, threads) ? 1 : std::min(threads, k->ne[2]);
        for (Tile & tile : found) {
            const int64_t fit = std::max<int64_t>(1, QUERIES / (tile.rows * group));
            tile.heads = std::min(fit, (k->ne[2] + blocks - 1) / blocks);
        }
        return found;
    }

    /** Calls a function with each item. Those that read the same heads follow each other. */
    template <typename Function>
    void each_item(const std::vector<Tile> & tiles, Function function) const {
        for (int64_t stream = 0; stream < q->ne[3]; stream++) {
            for (int64_t block = 0; block < k->ne[2]; block++) {
                for (const Tile & tile : tiles) {
                    const int64_t head = block * tile.heads;
                    if (head >= k->ne[2]) continue;
                    function(Item{stream, tile.row, tile.rows, head, std::min(tile.heads, k->ne[2] - head), 0, k->ne[1]});
                }
            }
        }
    }

    /** Calls a function with each query of an item: its number in `Found`, its row and its head. */
    template <typename Function>
    void each_query(const Item & item, Function function) const {
        for (int64_t i = 0; i < item.heads * item.rows * group; i++) {
            function(i, item.row + i / group % item.rows, (item.head + i / group / item.rows) * group + i % group);
        }
    }
};

/** Computes an item. */
class Search {
    const Inputs & inputs;
    const Item & item;
    Found & found;
    const int64_t width;
    const int64_t value_width;
    const int64_t key_bytes;
    const int64_t value_bytes;
    const char * keys;
    const char * values;
    const ggml_fp16_t * masks[QUERIES];
    Strays strays[QUERIES];
    /** Some queries of a head that see the same runs of the cells that are converted. */
    Several several;
    alignas(64) float key_floats[TOGETHER_FLOATS];
    alignas(64) float value_floats[TOGETHER_FLOATS];

    const char * keys_of(int64_t head) const { return keys + head * inputs.k->nb[2]; }
    const char * values_of(int64_t head) const { return values + head * inputs.v->nb[2]; }

    /** Adds the converted cells to the online softmax of N queries. */
    template <int N>
    [[gnu::noinline]] void attend(const Runs & runs) {
        alignas(64) Scores scores[N];
        for (int r = 0; r < runs.count; r++) {
            dot<N>(several.queries, key_floats + runs.numbers[r] * CELLS * width, width, scores, r * CELLS);
        }
        float kept[N];
        float * out[N];
        for (int n = 0; n < N; n++) {
            const int64_t number = several.numbers[n];
            out[n] = found.values + number * value_width;
            Floats largest_here = all(-INFINITY);
            for (int r = 0; r < runs.count; r++) {
                const ggml_fp16_t * shown = several.shown[n] + runs.numbers[r] * CELLS;
                for (int c = 0; c < CELLS; c += LANES) {
                    float * at = scores[n] + r * CELLS + c;
                    const Floats score = fma(load(at), all(inputs.scale), from_halves(shown + c));
                    store(at, score);
                    largest_here = larger(largest_here, score);
                }
            }
            const float before = found.largest[number];
            const float now = std::max(before, largest(largest_here));
            kept[n] = before == now ? 1.0f : expf(before - now);
            Floats total = all(0.0f);
            for (int c = 0; c < runs.count * CELLS; c += LANES) {
                const Floats score = load(scores[n] + c);
                const Floats exponent = larger(subtract(score, all(now)), all(SMALLEST_EXPONENT));
                const Floats weight = where_seen(score, ggml_v_expf(exponent));
                store(scores[n] + c, weight);
                total = add(total, weight);
            }
            found.largest[number] = now;
            found.total[number] = found.total[number] * kept[n] + sum(total);
        }
        add_weighted<N>(out, kept, scores, value_floats, runs, value_width);
    }

    /** Adds the converted cells to the queries that wait for it. */
    void flush(const Runs & runs) {
        static_assert(QUERIES_TOGETHER == 2 || QUERIES_TOGETHER == 4, "each number has its case");
        switch (several.count) {
            case 1: attend<1>(runs); break;
            case 2: attend<2>(runs); break;
#if defined(LOOKOUT_WIDE)
            case 3: attend<3>(runs); break;
            case 4: attend<4>(runs); break;
#endif
        }
        several.count = 0;
    }

    /** Adds the converted cells of a head to a row's queries, at the latest with the next `flush`. */
    void add_row(int64_t head, int64_t row, const Runs & runs, const ggml_fp16_t * shown) {
        for (int64_t member = 0; member < inputs.group; member++) {
            several.queries[several.count] = inputs.query(item.row + row, (item.head + head) * inputs.group + member, item.stream);
            several.shown[several.count] = shown;
            several.numbers[several.count] = (head * item.rows + row) * inputs.group + member;
            if (++several.count == QUERIES_TOGETHER) flush(runs);
        }
    }

    void add_strays(int64_t row) {
        Strays & of_row = strays[row];
        const int missing = CELLS - of_row.count;
        std::fill(of_row.shown + of_row.count, of_row.shown + CELLS, HIDDEN);
        const auto number = [&](int c) { return of_row.cells[c]; };
        const Runs first = {1, {0}};
        for (int64_t head = 0; head < item.heads; head++) {
            to_floats(inputs.k, keys_of(head), of_row.count, number, key_floats);
            to_floats(inputs.v, values_of(head), of_row.count, number, value_floats);
            memset(key_floats + of_row.count * width, 0, missing * width * sizeof(float));
            memset(value_floats + of_row.count * value_width, 0, missing * value_width * sizeof(float));
            add_row(head, row, first, of_row.shown);
            flush(first);
        }
        of_row.count = 0;
    }

    /** Whether a row sees so few cells of a run that they are gathered. */
    bool gather(int64_t row, int64_t cell) {
        const ggml_fp16_t * shown = masks[row] + cell;
        uint32_t seen_bits = ~hidden_bits(shown);
        if (__builtin_popcount(seen_bits) / 2 >= FEW) return false;
        for (; seen_bits != 0; seen_bits &= seen_bits - 1, seen_bits &= seen_bits - 1) {
            const int c = __builtin_ctz(seen_bits) / 2;
            Strays & of_row = strays[row];
            of_row.cells[of_row.count] = cell + c;
            of_row.shown[of_row.count] = shown[c];
            for (int64_t head = 0; head < item.heads; head++) {
                ask_for(keys_of(head) + (cell + c) * inputs.k->nb[1], key_bytes);
                ask_for(values_of(head) + (cell + c) * inputs.v->nb[1], value_bytes);
            }
            if (++of_row.count == CELLS) add_strays(row);
        }
        return true;
    }

    /** Processes `count` runs for some rows. */
    void add_runs(int64_t cell, int count, const int64_t * rows, int64_t row_count) {
        Runs runs[QUERIES];
        bool is_read[MOST_RUNS] = {};
        bool is_any = false;
        for (int64_t i = 0; i < row_count; i++) {
            runs[i].count = 0;
            for (int r = 0; r < count; r++) {
                if (gather(rows[i], cell + r * CELLS)) continue;
                runs[i].numbers[runs[i].count++] = r;
                is_read[r] = is_any = true;
            }
        }
        if (!is_any) return;
        for (int64_t head = 0; head < item.heads; head++) {
            for (int r = 0; r < count; r++) {
                if (!is_read[r]) continue;
                const auto number = [&](int c) { return cell + r * CELLS + c; };
                to_floats(inputs.k, keys_of(head), CELLS, number, key_floats + r * CELLS * width, AHEAD);
                to_floats(inputs.v, values_of(head), CELLS, number, value_floats + r * CELLS * value_width, AHEAD);
            }
            const Runs * before = nullptr;
            for (int64_t i = 0; i < row_count; i++) {
                if (runs[i].count == 0) continue;
                if (before != nullptr && !(*before == runs[i])) flush(*before);
                before = &runs[i];
                add_row(head, rows[i], runs[i], masks[rows[i]] + cell);
            }
            flush(*before);
        }
    }

public:
    Search(const Inputs & inputs, const Item & item, Found & found)
        : inputs(inputs), item(item), found(found), width(inputs.k->ne[0]), value_width(inputs.v->ne[0]),
          key_bytes(row_bytes(inputs.k)), value_bytes(row_bytes(inputs.v)) {
        const ggml_tensor * k = inputs.k;
        const ggml_tensor * v = inputs.v;
        const int64_t key_stream = item.stream / (inputs.q->ne[3] / k->ne[3]);
        keys = (const char *) k->data + item.head * k->nb[2] + key_stream * k->nb[3];
        values = (const char *) v->data + item.head * v->nb[2] + key_stream * v->nb[3];
        several.count = 0;
        for (int64_t row = 0; row < item.rows; row++) {
            strays[row].count = 0;
            masks[row] = inputs.seen(item.row + row, item.stream);
        }
    }

    void run() {
        const int64_t queries = item.heads * item.rows * inputs.group;
        std::fill(found.largest, found.largest + queries, -INFINITY);
        std::fill(found.total, found.total + queries, 0.0f);
        std::fill(found.values, found.values + queries * value_width, 0.0f);
        const int64_t most_runs = std::min<int64_t>(MOST_RUNS, TOGETHER_FLOATS / (CELLS * std::max(width, value_width)));
        for (int64_t block = item.start; block < item.end; block += BLOCK) {
            const int64_t end = std::min(block + BLOCK, item.end);
            int64_t rows[QUERIES];
            int64_t row_count = 0;
            for (int64_t row = 0; row < item.rows; row++) {
                if (end - block < BLOCK || !is_block_hidden(masks[row] + block)) rows[row_count++] = row;
            }
            for (int64_t cell = block; cell < end && row_count > 0; cell += most_runs * CELLS) {
                add_runs(cell, (int) std::min(most_runs, (end - cell) / CELLS), rows, row_count);
            }
        }
        for (int64_t row = 0; row < item.rows; row++) {
            if (strays[row].count > 0) add_strays(row);
        }
    }
};

struct Attention : Inputs {
    using Inputs::Inputs;

    /** Each thread takes a share of the items. With fewer items than threads, the items' cells are split into parts. */
    void run(const ggml_compute_params * params) const {
        const int64_t cells = k->ne[1];
        const int64_t width = v->ne[0];
        const int64_t record = 2 + width;  // Largest, total, values.
        const int64_t queries = q->ne[1] * q->ne[2] * q->ne[3];
        // How cells are split changes how sums are rounded, so it must not depend on what the rows see.
        const int64_t fewest_items = q->ne[3] * k->ne[2] * ((q->ne[1] + most_rows - 1) / most_rows);
        int64_t parts = std::min((params->nth + fewest_items - 1) / fewest_items, std::max<int64_t>(1, cells / FEWEST_CELLS));
        if ((int64_t) (params->wsize / sizeof(float)) < queries * parts * record) parts = 1;
        const int64_t part_cells = ((cells + parts - 1) / parts + BLOCK - 1) / BLOCK * BLOCK;
        Found found;
        auto * records = (float *) params->wdata;
        const auto record_of = [&](int64_t part, int64_t row, int64_t head, int64_t stream) {
            return records + (((part * q->ne[3] + stream) * q->ne[1] + row) * q->ne[2] + head) * record;
        };
        int64_t job = 0;
        each_item(tiles(params->nth), [&](Item item) {
            for (int64_t part = 0; part < parts; part++, job++) {
                if (job % params->nth != params->ith) continue;
                item.start = std::min(cells, part * part_cells);
                item.end = std::min(cells, item.start + part_cells);
                Search(*this, item, found).run();
                each_query(item, [&](int64_t i, int64_t row, int64_t head) {
                    const float * from = found.values + i * width;
                    if (parts == 1) {
                        const float inverse = found.total[i] == 0.0f ? 0.0f : 1.0f / found.total[i];
                        float * to = result(row, head, item.stream);
                        for (int64_t d = 0; d < width; d++) to[d] = from[d] * inverse;
                    } else {
                        float * to = record_of(part, row, head, item.stream);
                        to[0] = found.largest[i];
                        to[1] = found.total[i];
                        memcpy(to + 2, from, width * sizeof(float));
                    }
                });
            }
        });
        if (parts == 1) return;
        ggml_barrier(params->threadpool);
        for (int64_t query = params->ith; query < queries; query += params->nth) {
            const int64_t head = query % q->ne[2];
            const int64_t row = query / q->ne[2] % q->ne[1];
            const int64_t stream = query / q->ne[2] / q->ne[1];
            float now = -INFINITY;
            for (int64_t n = 0; n < parts; n++) now = std::max(now, record_of(n, row, head, stream)[0]);
            float total = 0.0f;
            float * to = result(row, head, stream);
            std::fill(to, to + width, 0.0f);
            for (int64_t n = 0; n < parts; n++) {
                const float * from = record_of(n, row, head, stream);
                if (from[1] == 0.0f) continue;
                const float kept = expf(from[0] - now);
                total += from[1] * kept;
                for (int64_t d = 0; d < width; d++) to[d] += from[2 + d] * kept;
            }
            for (int64_t d = 0; d < width && total != 0.0f; d++) to[d] /= total;
        }
    }
};

}  // namespace

#endif
