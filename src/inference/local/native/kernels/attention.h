// Attention over a KV cache for x86 with AVX2 or AVX-512; attention.cpp puts it in place of ggml's.
//
// To decode the next tokens of running completions, ggml computes one query against one cell at a time, with a scalar
// exponential for each, and keeps the sums in f16. For a small model with some context, this takes most of a step. For
// prompts it works on tiles of rows, and computes each cell that any row of a tile sees for all of its rows.
//
// Here, runs of sixteen cells (of f16 or Q8_0) are converted to f32, once for all rows of a tile: rows that see mostly the
// same cells. Of several queries, each key and each value is read once. Cells that a row must not see are skipped a run at a
// time. Where sequences decode together, their new cells alternate, and a row sees one or two of sixteen: these are gathered
// until there are sixteen. All sums are in f32.
//
// A row's result depends on its query and on the cells that it sees, in the order in which they were written, and on nothing
// else: not on where they lie, on other rows, on the size of the cache, or on the threads. The cells that a row sees are taken
// in parts of a fixed size, counted in its own order. Of a part, all scores are found first, which makes the order of that
// work free; then the weights, in the row's order; then values are added cell by cell.

#pragma once

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml-cpu-impl.h"
#include "vec.h"

#include "floats.h"
#include "panels.h"
#include "registers.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#if defined(LOOKOUT_FLOATS)
#define LOOKOUT_ATTENTION

/** Stamps of the cells of some keys: the higher, the later the cell was written. Null where their numbers are their order. */
extern "C" const uint64_t * lookout_cell_stamps(const ggml_tensor * k);

namespace {

/** In a mask, for a cell that a row must not see: minus infinity in f16. */
constexpr ggml_fp16_t HIDDEN = 0xFC00;
/** Cells of a run. */
constexpr int CELLS = 16;
/** Cells that a row skips together. For a short prompt beside a long one, that is most of the cache. */
constexpr int BLOCK = 8 * CELLS;
/** Cells of a part, of those that a row sees. Another number changes how sums are rounded. */
constexpr int PART = 512;
/** Memory for a query's scores in a part: vectors that begin at one of them may end after the last. */
constexpr int SCORES = PART + CELLS;
/** Maximum queries (a row and a head) in a tile; they share the cells converted to f32. */
constexpr int QUERIES = 32;
/** Maximum width of a key or value. */
constexpr int WIDEST = 256;
/** Maximum runs whose values are added together. */
constexpr int MOST_RUNS = 4;
/** Numbers of f32 that these have, so that they stay in a small L1 cache. */
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

/** One number for each cell of a run. */
using OfRun = float[CELLS];

// The sums of these functions stay in registers only as parts of their caller: hence always_inline.

/** `scores[n][c]` = queries[n] . keys[c], for N queries and CELLS keys; the same for a key wherever it stands in the run. */
template <int N>
[[gnu::always_inline]] inline void dot(const float * const * queries, const float * keys, int64_t width, OfRun * scores) {
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
    for (int n = 0; n < N; n++) finish(sums[n], scores[n]);
}

/** Some of the runs whose values were converted together, in order. */
struct Runs {
    int count;
    int numbers[MOST_RUNS];
    int cells[MOST_RUNS];

    bool operator==(const Runs & other) const { return count == other.count && std::equal(numbers, numbers + count, other.numbers); }
};

/** Of a query: where the weights of each run's cells are. */
using Weights = const float * [MOST_RUNS];

/** A part of `add_weighted`: so many vectors of the results. */
template <int N, int VECTORS>
[[gnu::always_inline]] inline void add_weighted_vectors(float * const * out, const Weights * weights, const float * values,
                                                        const Runs & runs, int64_t width) {
    Floats sums[N][VECTORS];
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) sums[n][i] = load(out[n] + i * LANES);
    }
    for (int r = 0; r < runs.count; r++) {
        const float * rows = values + runs.numbers[r] * CELLS * width;
        const float * of_run[N];
        for (int n = 0; n < N; n++) of_run[n] = weights[n][r];
        for (int c = 0; c < runs.cells[r]; c++) {
            Floats value[VECTORS];
            for (int i = 0; i < VECTORS; i++) value[i] = kept_in_register(load(rows + c * width + i * LANES));
            for (int n = 0; n < N; n++) {
                const Floats weight = all(of_run[n][c]);
                for (int i = 0; i < VECTORS; i++) sums[n][i] = fma(weight, value[i], sums[n][i]);
            }
        }
    }
    for (int n = 0; n < N; n++) {
        for (int i = 0; i < VECTORS; i++) store(out[n] + i * LANES, sums[n][i]);
    }
}

/** Adds weights[n][r][c] * values[r][c] to `out[n]`, cell by cell, for N queries. */
template <int N>
[[gnu::always_inline]] inline void add_weighted(float * const * out, const Weights * weights, const float * values,
                                                const Runs & runs, int64_t width) {
    float * at[N];
    for (int n = 0; n < N; n++) at[n] = out[n];
    int64_t d = 0;
    const auto step = [&](int vectors) {
        for (int n = 0; n < N; n++) at[n] += vectors * LANES;
        d += vectors * LANES;
    };
    for (; N == 1 && d + 8 * LANES <= width; step(8)) add_weighted_vectors<N, 8>(at, weights, values + d, runs, width);
    for (; d + 4 * LANES <= width; step(4)) add_weighted_vectors<N, 4>(at, weights, values + d, runs, width);
    for (; d < width; step(1)) add_weighted_vectors<N, 1>(at, weights, values + d, runs, width);
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

/** Converts the rows of some of a head's cells. */
inline void to_floats(const ggml_tensor * cells, const char * head, int count, const int32_t * numbers, float * out) {
    const int64_t width = cells->ne[0];
    const int64_t bytes = row_bytes(cells);
    const bool is_halves = cells->type == GGML_TYPE_F16;
    for (int c = 0; c < count; c++) {
        const char * row = head + numbers[c] * cells->nb[1];
        ask_for(row + AHEAD * cells->nb[1], bytes);
        if (is_halves) halves_to_floats(row, width, out + c * width);
        else blocks_to_floats(row, width, out + c * width);
    }
}

/** Which of CELLS cells the mask shows: a bit for each. */
inline uint32_t seen_bits(const ggml_fp16_t * mask) {
    const __m256i minus_infinity = _mm256_set1_epi16((short) HIDDEN);
    const __m256i hidden = _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) mask), minus_infinity);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(hidden), _mm256_extracti128_si256(hidden, 1));
    return ~_mm_movemask_epi8(bytes) & 0xFFFF;
}

/** Whether it shows none of BLOCK cells. */
inline bool is_block_hidden(const ggml_fp16_t * mask) {
    const __m256i minus_infinity = _mm256_set1_epi16((short) HIDDEN);
    __m256i hidden = _mm256_set1_epi16(-1);
    for (int c = 0; c < BLOCK; c += 16) {
        hidden = _mm256_and_si256(hidden, _mm256_cmpeq_epi16(_mm256_loadu_si256((const __m256i *) (mask + c)), minus_infinity));
    }
    return _mm256_movemask_epi8(hidden) == -1;
}

/** Of each query over some cells: the largest score, the sum of exp(score - largest), and the values weighted by it. */
struct Found {
    float largest[QUERIES];
    float total[QUERIES];
    float values[QUERIES * WIDEST];
};

/** Adds a part of the cells to those before it. All parts are added here and in order, whichever threads compute them. */
[[gnu::noinline]] void add_part(float & largest, float & total, float * values, float largest_of_part, float total_of_part,
                                const float * values_of_part, int64_t width) {
    if (total_of_part == 0.0f) return;
    const float now = std::max(largest, largest_of_part);
    const float kept = total == 0.0f ? 0.0f : expf(largest - now);
    const float added = expf(largest_of_part - now);
    for (int64_t d = 0; d < width; d += LANES) {
        store(values + d, fma(load(values + d), all(kept), multiply(load(values_of_part + d), all(added))));
    }
    total = total * kept + total_of_part * added;
    largest = now;
}

/** CELLS cells, or fewer that are gathered, with the rows that see some of them. */
struct Run {
    int32_t cells[CELLS];
    int count;
    /** In `members`. */
    int first_member;
    int end_member;
};

/** A row that sees some of a run's cells. */
struct Member {
    int row;
    /** Which of the cells. */
    uint32_t bits;
    /** How many cells of the part the row sees before these. */
    int rank;
    /** What is added to the scores of the run's cells. */
    const ggml_fp16_t * shown;
};

/** What a row sees of the runs that are in f32. */
struct OfRow {
    Runs runs;
    const Member * members[MOST_RUNS];
};

/** Queries of rows that see the same of these runs. They are processed together. */
struct Several {
    int count;
    const float * queries[QUERIES_TOGETHER];
    float * scores[QUERIES_TOGETHER];
    float * values[QUERIES_TOGETHER];
    const OfRow * rows[QUERIES_TOGETHER];
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
                    function(Item{stream, tile.row, tile.rows, head, std::min(tile.heads, k->ne[2] - head)});
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

/** Memory of a thread for an item. It keeps its size. */
struct Memory {
    std::vector<Run> runs;
    std::vector<Member> members;
    /** Of gathered cells: what the mask adds to their scores. */
    std::vector<std::array<ggml_fp16_t, CELLS>> shown;
    /** Cells in the order in which they were written, and each row's mask of these: only where cells are not in order. */
    std::vector<int32_t> order;
    std::vector<ggml_fp16_t> masks;
};

/** Whether CELLS stamps ascend. */
inline bool are_ascending(const uint64_t * stamps) {
    const auto from = [&](int c) { return _mm256_loadu_si256((const __m256i *) (stamps + c)); };
    const auto above = [&](int c) { return _mm256_cmpgt_epi64(from(c + 1), from(c)); };
    const __m256i ascend = _mm256_and_si256(_mm256_and_si256(above(0), above(4)), _mm256_and_si256(above(8), above(11)));
    return _mm256_movemask_epi8(ascend) == -1;
}

/** Sorts cells by their stamps. Mostly there are few stretches of cells whose stamps ascend: these are merged. */
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

/** Computes an item part by part. */
class Search {
    const Inputs & inputs;
    const Item & item;
    const int64_t width;
    const int64_t value_width;
    const char * keys;
    const char * values;
    Memory & memory;
    /** Where cells are in order, a place is a cell's number; otherwise it is an index of `memory.order`. */
    int64_t places;
    const ggml_fp16_t * masks[QUERIES];
    /** By row: the place from which on it sees the cells of the next part, and how many of those of this part have been found. */
    int64_t next[QUERIES];
    int taken[QUERIES];
    /** By row: gathered cells that are not in a run yet. */
    struct Strays {
        int count;
        int rank;
        int32_t cells[CELLS];
        std::array<ggml_fp16_t, CELLS> shown;
    } strays[QUERIES];
    Several several;
    /** By number in the tile. */
    const float * queries[QUERIES];
    /** Of a query, in the row's own order; later the weights. */
    alignas(64) float scores[QUERIES * SCORES];
    /** Of runs: first their keys, then their values. */
    alignas(64) float floats[TOGETHER_FLOATS];

    int32_t cell_at(int64_t place) const { return memory.order.empty() ? (int32_t) place : memory.order[place]; }

    /** Which of a run's cells any row sees. */
    uint32_t seen_by_any(int64_t place) const {
        uint32_t bits = 0;
        for (int64_t row = 0; row < item.rows && bits != 0xFFFF; row++) bits |= seen_bits(masks[row] + place);
        return bits;
    }

    /** Whether the cells that the rows see were written in the order of their numbers. */
    bool is_in_order(const uint64_t * stamps) const {
        uint64_t before = 0;
        for (int64_t cell = 0; cell < places; cell += CELLS) {
            uint32_t bits = seen_by_any(cell);
            if (bits == 0xFFFF) {
                if (stamps[cell] < before || !are_ascending(stamps + cell)) return false;
                before = stamps[cell + CELLS - 1];
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

    /** Puts the cells that any row sees in the order in which they were written. */
    void sort(const uint64_t * stamps) {
        std::vector<int32_t> & order = memory.order;
        for (int64_t cell = 0; cell < places; cell += CELLS) {
            for (uint32_t bits = seen_by_any(cell); bits != 0; bits &= bits - 1) order.push_back(cell + __builtin_ctz(bits));
        }
        sort_by(stamps, order);
        places = (order.size() + CELLS - 1) / CELLS * CELLS;
        memory.masks.assign(item.rows * places, HIDDEN);
        for (int64_t row = 0; row < item.rows; row++) {
            ggml_fp16_t * to = memory.masks.data() + row * places;
            for (size_t i = 0; i < order.size(); i++) to[i] = masks[row][order[i]];
            masks[row] = to;
        }
        order.resize(places);
    }

    /** Makes a run of a row's gathered cells. */
    void end_strays(int64_t row) {
        Strays & of_row = strays[row];
        memory.shown.push_back(of_row.shown);
        Run & run = new_run(of_row.count);
        std::copy(of_row.cells, of_row.cells + CELLS, run.cells);
        memory.members.push_back({(int) row, (1u << of_row.count) - 1, of_row.rank, memory.shown.back().data()});
        run.end_member++;
        of_row.count = 0;
    }

    /** Adds a run that has no members yet. */
    Run & new_run(int count) {
        memory.runs.emplace_back();
        Run & run = memory.runs.back();
        run.count = count;
        run.first_member = run.end_member = memory.members.size();
        return run;
    }

    void gather(int64_t row, int64_t place, uint32_t bits, int rank) {
        Strays & of_row = strays[row];
        for (; bits != 0; bits &= bits - 1, rank++) {
            const int64_t at = place + __builtin_ctz(bits);
            if (of_row.count == 0) of_row.rank = rank;
            of_row.shown[of_row.count] = masks[row][at];
            of_row.cells[of_row.count++] = cell_at(at);
            if (of_row.count == CELLS) end_strays(row);
        }
    }

    /** The cells of a run, from its place on, that belong to this part of a row. */
    uint32_t take(int64_t row, int64_t place) {
        uint32_t bits = seen_bits(masks[row] + place);
        if (next[row] <= place && taken[row] <= PART - 2 * CELLS) {
            taken[row] += __builtin_popcount(bits);
            return bits;
        }
        if (taken[row] == PART || next[row] >= place + CELLS) return 0;
        if (next[row] > place) bits &= ~0u << (next[row] - place);
        const int over = taken[row] + __builtin_popcount(bits) - PART;
        for (int i = 0; i < over; i++) bits &= ~(1u << (31 - __builtin_clz(bits)));
        taken[row] += __builtin_popcount(bits);
        if (taken[row] == PART) next[row] = place + 32 - __builtin_clz(bits);
        return bits;
    }

    /** Finds the runs of the next part. */
    void find_runs() {
        memory.runs.clear();
        memory.members.clear();
        memory.shown.clear();
        // Members point to them: each row ends strays when they fill a run, before a run that it shares, and after the last.
        memory.shown.reserve(QUERIES * (PART / CELLS + PART / FEW + 1));
        std::fill(taken, taken + item.rows, 0);
        const int64_t first = *std::min_element(next, next + item.rows) / BLOCK * BLOCK;
        int64_t left = item.rows;
        for (int64_t block = first; block < places && left > 0; block += BLOCK) {
            const int64_t end = std::min(block + BLOCK, places);
            int64_t rows[QUERIES];
            int64_t row_count = 0;
            left = 0;
            for (int64_t row = 0; row < item.rows; row++) {
                if (taken[row] == PART) continue;
                left++;
                if (end - block < BLOCK || !is_block_hidden(masks[row] + block)) rows[row_count++] = row;
            }
            for (int64_t place = block; place < end && row_count > 0; place += CELLS) find_run(place, rows, row_count);
        }
        for (int64_t row = 0; row < item.rows; row++) {
            if (strays[row].count > 0) end_strays(row);
            if (taken[row] < PART) next[row] = places;
        }
    }

    void find_run(int64_t place, const int64_t * rows, int64_t row_count) {
        Member members[QUERIES];
        int count = 0;
        for (int64_t i = 0; i < row_count; i++) {
            const int64_t row = rows[i];
            const int rank = taken[row];
            const uint32_t bits = take(row, place);
            if (bits == 0) continue;
            if (__builtin_popcount(bits) < FEW) {
                gather(row, place, bits, rank);
                continue;
            }
            if (strays[row].count > 0) end_strays(row);
            members[count++] = {(int) row, bits, rank, masks[row] + place};
        }
        if (count == 0) return;
        Run & run = new_run(CELLS);
        for (int c = 0; c < CELLS; c++) run.cells[c] = cell_at(place + c);
        memory.members.insert(memory.members.end(), members, members + count);
        run.end_member += count;
    }

    template <int N>
    [[gnu::noinline]] void score() {
        alignas(64) OfRun found[N];
        const Runs & runs = several.rows[0]->runs;
        for (int r = 0; r < runs.count; r++) {
            dot<N>(several.queries, floats + runs.numbers[r] * CELLS * width, width, found);
            for (int n = 0; n < N; n++) {
                const Member & member = *several.rows[n]->members[r];
                float * to = several.scores[n] + member.rank;
                for (int c = 0; c < CELLS; c += LANES) {
                    const Floats score = fma(load(found[n] + c), all(inputs.scale), from_halves(member.shown + c));
                    to += store_chosen(to, score, member.bits >> c);
                }
            }
        }
    }

    template <int N>
    [[gnu::noinline]] void add_values() {
        alignas(64) float spread[N][MOST_RUNS][CELLS];
        Weights weights[N];
        const Runs & runs = several.rows[0]->runs;
        for (int n = 0; n < N; n++) {
            for (int r = 0; r < runs.count; r++) {
                const Member & member = *several.rows[n]->members[r];
                const float * from = several.scores[n] + member.rank;
                weights[n][r] = from;
                if (member.bits == (1u << runs.cells[r]) - 1) continue;
                for (int c = 0; c < CELLS; c += LANES) from += load_chosen(from, member.bits >> c, spread[n][r] + c);
                weights[n][r] = spread[n][r];
            }
        }
        add_weighted<N>(several.values, weights, floats, runs, value_width);
    }

    /** Has what is in f32 added to the queries that wait for it. */
    template <bool ARE_KEYS>
    void flush() {
        static_assert(QUERIES_TOGETHER == 2 || QUERIES_TOGETHER == 4, "each number has its case");
        switch (several.count) {
            case 1: ARE_KEYS ? score<1>() : add_values<1>(); break;
            case 2: ARE_KEYS ? score<2>() : add_values<2>(); break;
#if defined(LOOKOUT_WIDE)
            case 3: ARE_KEYS ? score<3>() : add_values<3>(); break;
            case 4: ARE_KEYS ? score<4>() : add_values<4>(); break;
#endif
        }
        several.count = 0;
    }

    /** Converts keys or values of some runs at a time, and adds them to the queries. */
    template <bool ARE_KEYS>
    void add_runs(Found & found) {
        const ggml_tensor * cells = ARE_KEYS ? inputs.k : inputs.v;
        const int64_t run_floats = CELLS * cells->ne[0];
        const size_t most_runs = std::min<size_t>(MOST_RUNS, TOGETHER_FLOATS / run_floats);
        for (size_t first = 0; first < memory.runs.size(); first += most_runs) {
            const size_t count = std::min(most_runs, memory.runs.size() - first);
            OfRow of_rows[QUERIES];
            for (int64_t row = 0; row < item.rows; row++) of_rows[row].runs.count = 0;
            for (size_t r = 0; r < count; r++) {
                const Run & run = memory.runs[first + r];
                for (int m = run.first_member; m < run.end_member; m++) {
                    const Member & member = memory.members[m];
                    OfRow & of_row = of_rows[member.row];
                    of_row.members[of_row.runs.count] = &member;
                    of_row.runs.cells[of_row.runs.count] = run.count;
                    of_row.runs.numbers[of_row.runs.count++] = r;
                }
            }
            for (int64_t head = 0; head < item.heads; head++) {
                for (size_t r = 0; r < count; r++) {
                    const Run & run = memory.runs[first + r];
                    const char * of_head = (ARE_KEYS ? keys : values) + head * cells->nb[2];
                    to_floats(cells, of_head, run.count, run.cells, floats + r * run_floats);
                }
                const Runs * before = nullptr;
                for (int64_t row = 0; row < item.rows; row++) {
                    const OfRow & of_row = of_rows[row];
                    if (of_row.runs.count == 0) continue;
                    if (before != nullptr && !(*before == of_row.runs)) flush<ARE_KEYS>();
                    before = &of_row.runs;
                    for (int64_t i = 0; i < inputs.group; i++) {
                        const int64_t number = (head * item.rows + row) * inputs.group + i;
                        several.queries[several.count] = queries[number];
                        several.scores[several.count] = scores + number * SCORES;
                        several.values[several.count] = found.values + number * value_width;
                        several.rows[several.count] = &of_row;
                        if (++several.count == QUERIES_TOGETHER) flush<ARE_KEYS>();
                    }
                }
                flush<ARE_KEYS>();
            }
        }
    }

    /** Turns a query's scores into weights. */
    void weigh(int64_t number, Found & found) {
        const int count = taken[number / inputs.group % item.rows];
        float * of_query = scores + number * SCORES;
        for (int c = 0; c < CELLS; c += LANES) store(of_query + count + c, all(-INFINITY));
        Floats largest_here = all(-INFINITY);
        for (int c = 0; c < count; c += LANES) largest_here = larger(largest_here, load(of_query + c));
        const float now = largest(largest_here);
        Floats total = all(0.0f);
        for (int c = 0; c < count; c += LANES) {
            const Floats score = load(of_query + c);
            const Floats exponent = larger(subtract(score, all(now)), all(SMALLEST_EXPONENT));
            const Floats weight = where_seen(score, ggml_v_expf(exponent));
            store(of_query + c, weight);
            total = add(total, weight);
        }
        found.largest[number] = now;
        found.total[number] = sum(total);
    }

public:
    Search(const Inputs & inputs, const Item & item, Memory & memory)
        : inputs(inputs), item(item), width(inputs.k->ne[0]), value_width(inputs.v->ne[0]), memory(memory),
          places(inputs.k->ne[1]) {
        const ggml_tensor * k = inputs.k;
        const ggml_tensor * v = inputs.v;
        const int64_t key_stream = item.stream / (inputs.q->ne[3] / k->ne[3]);
        keys = (const char *) k->data + item.head * k->nb[2] + key_stream * k->nb[3];
        values = (const char *) v->data + item.head * v->nb[2] + key_stream * v->nb[3];
        several.count = 0;
        for (int64_t row = 0; row < item.rows; row++) {
            masks[row] = inputs.seen(item.row + row, item.stream);
            next[row] = 0;
            strays[row].count = 0;
        }
        inputs.each_query(item, [&](int64_t i, int64_t row, int64_t head) { queries[i] = inputs.query(row, head, item.stream); });
        memory.order.clear();
        const uint64_t * stamps = inputs.k->ne[3] == 1 ? lookout_cell_stamps(inputs.k) : nullptr;
        if (stamps != nullptr && !is_in_order(stamps)) sort(stamps);
    }

    /** Computes the next part. @return whether any row sees any of it. */
    bool find_part(Found & found) {
        const int64_t queries = item.heads * item.rows * inputs.group;
        find_runs();
        if (memory.runs.empty()) {
            std::fill(found.total, found.total + queries, 0.0f);
            return false;
        }
        add_runs<true>(found);
        for (int64_t i = 0; i < queries; i++) weigh(i, found);
        std::fill(found.values, found.values + queries * value_width, 0.0f);
        add_runs<false>(found);
        return true;
    }

    /** Passes over the next part. */
    void skip_part() {
        for (int64_t row = 0; row < item.rows; row++) {
            taken[row] = 0;
            int64_t place = next[row] / CELLS * CELLS;
            for (; place < places && taken[row] < PART; place += CELLS) take(row, place);
            if (taken[row] < PART) next[row] = places;
        }
    }
};

struct Attention : Inputs {
    using Inputs::Inputs;

    /** Each thread takes a share of the items. With fewer items than threads, it takes a share of their parts. */
    void run(const ggml_compute_params * params) const {
        static thread_local Memory memory;
        std::vector<Item> items;
        each_item(tiles(params->nth), [&](const Item & item) { items.push_back(item); });
        const int64_t parts = (k->ne[1] + PART - 1) / PART;
        if (parts > 1 && (int64_t) items.size() < params->nth) return run_parts(params, items, parts, memory);
        const int64_t width = v->ne[0];
        Found found, part;
        for (size_t i = params->ith; i < items.size(); i += params->nth) {
            Search search(*this, items[i], memory);
            search.find_part(found);
            while (search.find_part(part)) {
                each_query(items[i], [&](int64_t n, int64_t, int64_t) {
                    add_part(found.largest[n], found.total[n], found.values + n * width, part.largest[n], part.total[n],
                             part.values + n * width, width);
                });
            }
            each_query(items[i], [&](int64_t n, int64_t row, int64_t head) {
                end(found.total[n], found.values + n * width, result(row, head, items[i].stream));
            });
        }
    }

private:
    void end(float total, const float * values, float * to) const {
        if (total == 0.0f) return (void) std::fill(to, to + v->ne[0], 0.0f);
        const float inverse = 1.0f / total;
        for (int64_t d = 0; d < v->ne[0]; d++) to[d] = values[d] * inverse;
    }

    void run_parts(const ggml_compute_params * params, const std::vector<Item> & items, int64_t parts, Memory & memory) const {
        static thread_local Scratch<float> own_memory;
        const int64_t width = v->ne[0];
        const int64_t record = 2 + width;  // Largest, total, values.
        const int64_t queries = q->ne[1] * q->ne[2] * q->ne[3];
        auto * records = (float *) params->wdata;
        if (params->wsize / sizeof(float) < (size_t) (queries * parts * record)) {
            if (params->ith == 0) *(float **) params->wdata = own_memory.of(queries * parts * record);
            ggml_barrier(params->threadpool);
            records = *(float **) params->wdata;
        }
        const auto record_of = [&](int64_t part, int64_t row, int64_t head, int64_t stream) {
            return records + (((part * q->ne[3] + stream) * q->ne[1] + row) * q->ne[2] + head) * record;
        };
        Found found;
        int64_t job = 0;
        for (const Item & item : items) {
            Search search(*this, item, memory);
            for (int64_t part = 0; part < parts; part++, job++) {
                if (job % params->nth != params->ith) {
                    search.skip_part();
                    continue;
                }
                search.find_part(found);
                each_query(item, [&](int64_t i, int64_t row, int64_t head) {
                    float * to = record_of(part, row, head, item.stream);
                    to[0] = found.largest[i];
                    to[1] = found.total[i];
                    memcpy(to + 2, found.values + i * width, width * sizeof(float));
                });
            }
        }
        ggml_barrier(params->threadpool);
        for (int64_t query = params->ith; query < queries; query += params->nth) {
            const int64_t head = query % q->ne[2];
            const int64_t row = query / q->ne[2] % q->ne[1];
            const int64_t stream = query / q->ne[2] / q->ne[1];
            float * first = record_of(0, row, head, stream);
            for (int64_t n = 1; n < parts; n++) {
                const float * part = record_of(n, row, head, stream);
                add_part(first[0], first[1], first + 2, part[0], part[1], part + 2, width);
            }
            end(first[1], first + 2, result(row, head, stream));
        }
    }
};

}  // namespace

#endif
