// Products of weights of f16 and a batch of rows, for x86 with AVX2 or AVX-512.
//
// ggml's sgemm.cpp converts each number from f16 again for every few rows that it is multiplied with, and reads all rows of the
// batch for every four rows of weights. Here, some rows of the batch are converted once and stay in the nearest cache while they
// are multiplied with several rows of weights. For a larger batch, weights become panels, too: adding up the lanes of a vector
// would take half of the time for weights of 192 numbers, as in the encoder of a small model.
//
// A row's result does not depend on the other rows of the batch: its sums are always added in the same order. LANES
// neighbouring numbers have their products added to a sum of their own each, one after another. After MOST_WIDTH numbers, those
// LANES sums are added in pairs, the first half to the second, until one is left, and that is added to the result.

#include "ggml-cpu-impl.h"
#include "panels.h"

#if defined(LOOKOUT_FLOATS)

#include <algorithm>
#include <type_traits>

namespace {

/** Rows of weights, and of the batch, that are multiplied together: their sums stay in 32 or 16 registers. */
constexpr int WEIGHTS = 4;
constexpr int ROWS = LANES == 16 ? 6 : 3;
/** Numbers of a row that are multiplied before the next, so that some rows of the batch stay in the nearest cache. */
constexpr int64_t MOST_WIDTH = 1024;
/** Rows of weights that a thread takes at a time, at most; they stay in a cache near to the core. */
constexpr int64_t MOST_PART = 128;
/** Parts that a thread should have of each product, so that one that has lost its core holds up the others less. */
constexpr int64_t PARTS = 4;
/** Numbers of weights that are asked for together: a line of the caches. */
constexpr int64_t LINE = 32;
/** Fewest rows of a batch that are worth a panel. */
constexpr int64_t FEWEST_ROWS = LANES == 16 ? 40 : 16;

/** Adds the lanes of each of four vectors. */
inline __m128 lanes_added(const Floats * x) {
#if defined(LOOKOUT_WIDE)
    const auto eights = [](Floats a, Floats b) {
        return add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    };
    const Floats first = eights(x[0], x[1]), second = eights(x[2], x[3]);
    const Floats fours = add(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xdd));
    const Floats twos = add(fours, _mm512_permute_ps(fours, 0x4e));
    const Floats ones = add(twos, _mm512_permute_ps(twos, 0xb1));
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, ones));
#else
    const auto four = [](Floats of) { return _mm_add_ps(_mm256_castps256_ps128(of), _mm256_extractf128_ps(of, 1)); };
    const auto two = [](__m128 a, __m128 b) { return _mm_add_ps(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a)); };
    return _mm_hadd_ps(two(four(x[0]), four(x[1])), two(four(x[2]), four(x[3])));
#endif
}

/** Numbers of f32 from one row of the batch to the next. */
constexpr int64_t STRIDE = MOST_WIDTH + LANES;

/** Makes f32 of up to MOST_WIDTH numbers of some rows, filled up to whole vectors with zeros. @param to [row][STRIDE] */
inline void read_rows(const ggml_fp16_t * rows, int64_t stride, int64_t count, int64_t width, float * to) {
    for (int64_t r = 0; r < count; r++) {
        for (int64_t i = 0; i < width; i += LANES) store(to + r * STRIDE + i, some_halves(rows + r * stride + i, width - i));
    }
}

/**
 * The products of WEIGHTS rows of weights and COUNT rows of the batch.
 * @param ahead how far from each number of the weights is one to ask for.
 */
template <int COUNT>
inline void multiply_vectors(const ggml_fp16_t * const * weights, int64_t ahead, const float * rows, int64_t width,
                          __m128 * products) {
    Floats sums[COUNT][WEIGHTS];
    for (int r = 0; r < COUNT; r++) std::fill(sums[r], sums[r] + WEIGHTS, all(0.0f));
    const auto add_products = [&](int64_t i, int64_t there) {
#pragma GCC unroll 4
        for (int w = 0; w < WEIGHTS; w++) {
            const Floats some = some_halves(weights[w] + i, there);
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) sums[r][w] = fma(some, load(rows + r * STRIDE + i), sums[r][w]);
        }
    };
    int64_t i = 0;
    for (; i + LINE <= width; i += LINE) {
        for (int w = 0; w < WEIGHTS; w++) _mm_prefetch((const char *) (weights[w] + i + ahead), _MM_HINT_T0);
#pragma GCC unroll 4
        for (int64_t j = i; j < i + LINE; j += LANES) add_products(j, LANES);
    }
    for (; i < width; i += LANES) add_products(i, width - i);
    for (int r = 0; r < COUNT; r++) products[r] = lanes_added(sums[r]);
}

/** The same of a part of the weights. @param is_first whether `out`, [row of the batch][row of weights], holds nothing yet. */
template <int COUNT>
inline void multiply_part(const ggml_fp16_t * weights, int64_t stride, int64_t count, const float * rows, int64_t width,
                          bool is_first, float * out, int64_t out_stride) {
    for (int64_t first = 0; first < count; first += WEIGHTS) {
        const int64_t there = std::min<int64_t>(WEIGHTS, count - first);
        const ggml_fp16_t * four[WEIGHTS];
        for (int64_t w = 0; w < WEIGHTS; w++) four[w] = weights + (first + std::min(w, there - 1)) * stride;
        __m128 products[COUNT];
        multiply_vectors<COUNT>(four, WEIGHTS * stride, rows, width, products);
        for (int r = 0; r < COUNT; r++) {
            float * to = out + r * out_stride + first;
            float before[WEIGHTS] = {};
            if (!is_first) std::memcpy(before, to, there * sizeof(float));
            const __m128 sums = is_first ? products[r] : _mm_add_ps(_mm_loadu_ps(before), products[r]);
            std::memcpy(to, &sums, there * sizeof(float));
        }
    }
}

/** Calls a function with a number of rows, from 1 to MOST, as a constant. */
template <int MOST, typename Call> inline void with_rows(int64_t count, const Call & call) {
    if constexpr (MOST > 1) {
        if (count < MOST) return with_rows<MOST - 1>(count, call);
    }
    call(std::integral_constant<int, MOST>());
}

/** Has the threads compute products of few rows of the batch, as `lookout_multiply_halves` is asked. */
void multiply_few(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const ggml_fp16_t * weights,
                  int64_t weights_stride, const ggml_fp16_t * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    alignas(64) static thread_local float some[ROWS * STRIDE];
    const int64_t part = WEIGHTS * std::clamp<int64_t>(m / (WEIGHTS * PARTS * params->nth), 1, MOST_PART / WEIGHTS);
    const int64_t parts = (m + part - 1) / part;
    // Of about as many rows each.
    const int64_t blocks = (n + ROWS - 1) / ROWS;
    const int64_t together = (n + blocks - 1) / blocks;
    for (int64_t chunk = params->ith; chunk < parts; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t first = chunk * part;
        const int64_t count = std::min(part, m - first);
        for (int64_t from = 0; from < k; from += MOST_WIDTH) {
            const int64_t width = std::min(MOST_WIDTH, k - from);
            for (int64_t row = 0; row < n; row += together) {
                const int64_t rows_there = std::min(together, n - row);
                read_rows(rows + row * rows_stride + from, rows_stride, rows_there, width, some);
                with_rows<ROWS>(rows_there, [&](auto of) {
                    multiply_part<of>(weights + first * weights_stride + from, weights_stride, count, some, width, from == 0,
                                      out + row * out_stride + first, out_stride);
                });
            }
        }
    }
}

/** How often the number of sums is halved until one is left. */
constexpr int HALVINGS = LANES == 16 ? 4 : 3;
/** Of these sums, those that are computed together, and how often their number is halved. */
constexpr int SUMS = LANES == 16 ? 2 : 1;
constexpr int HALVINGS_TOGETHER = LANES == 16 ? 1 : 0;
/** Rows of the batch that are multiplied with a panel together: their sums stay in 24 of 32 registers, or in 12 of 16. */
constexpr int PANEL_ROWS = 6;

/** The n-th of the sums, where those that are added to each other follow each other: the bits of n the other way round. */
constexpr int nth_sum(int n) {
    int number = 0;
    for (int bit = 0; bit < HALVINGS; bit++) number |= (n >> bit & 1) << (HALVINGS - 1 - bit);
    return number;
}

/** A panel as f32, by the sums that its rows belong to: [sum][step][PANEL]. @param steps vectors that a row of weights fills. */
inline void by_sums(const ggml_fp16_t * panel, int64_t steps, float * to) {
    for (int64_t row = 0; row < steps * LANES; row++) {
        float * at = to + (row % LANES * steps + row / LANES) * PANEL;
        store(at, from_halves(panel + row * PANEL));
        store(at + LANES, from_halves(panel + row * PANEL + LANES));
    }
}

/** The products of a panel and COUNT rows of the batch, added as `multiply_vectors` and `lanes_added` do. */
template <int COUNT>
void multiply_with_panel(const float * panel, int64_t steps, const float * rows, bool is_first, float * out, int64_t out_stride) {
    constexpr int MOST_WAITING = HALVINGS - HALVINGS_TOGETHER;
    Floats waiting[MOST_WAITING][COUNT][2];
    for (int n = 0; n < LANES / SUMS; n++) {
        Floats sums[SUMS][COUNT][2];
        const float * weights[SUMS];
        const float * values[SUMS];
#pragma GCC unroll 4
        for (int s = 0; s < SUMS; s++) {
            const int number = nth_sum(n * SUMS + s);
            weights[s] = panel + number * steps * PANEL;
            values[s] = rows + number;
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) sums[s][r][0] = sums[s][r][1] = all(0.0f);
        }
#pragma GCC unroll 2
        for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 4
            for (int s = 0; s < SUMS; s++) {
                const Floats left = load(weights[s] + step * PANEL);
                const Floats right = load(weights[s] + step * PANEL + LANES);
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    const Floats value = all(values[s][r * STRIDE + step * LANES]);
                    sums[s][r][0] = fma(left, value, sums[s][r][0]);
                    sums[s][r][1] = fma(right, value, sums[s][r][1]);
                }
            }
        }
        int halving = 0;
        while (n >> halving & 1) halving++;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
#pragma GCC unroll 2
                for (int apart = 1; apart < SUMS; apart *= 2) {
#pragma GCC unroll 4
                    for (int s = 0; s < SUMS; s += 2 * apart) sums[s][r][half] = add(sums[s][r][half], sums[s + apart][r][half]);
                }
                Floats sum = sums[0][r][half];
                for (int i = 0; i < halving; i++) sum = add(waiting[i][r][half], sum);
                float * to = out + r * out_stride + half * LANES;
                if (halving < MOST_WAITING) waiting[halving][r][half] = sum;
                else store(to, is_first ? sum : add(load(to), sum));
            }
        }
    }
}

/** Has the threads compute products of panels, as `lookout_multiply_halves` is asked. */
void multiply_panels(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const ggml_fp16_t * weights,
                     int64_t weights_stride, const ggml_fp16_t * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    static thread_local Scratch<ggml_fp16_t> half_memory;
    static thread_local Scratch<float> panel_memory, row_memory, edge_memory;
    const int64_t most_steps = (std::min(k, MOST_WIDTH) + LANES - 1) / LANES;
    ggml_fp16_t * halves = half_memory.of(most_steps * LANES * PANEL);
    float * panel = panel_memory.of(most_steps * LANES * PANEL);
    float * some = row_memory.of(PANEL_ROWS * STRIDE);
    const int64_t panels = (m + PANEL - 1) / PANEL;
    for (int64_t chunk = params->ith; chunk < panels; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t first = chunk * PANEL;
        const int64_t count = std::min<int64_t>(PANEL, m - first);
        float * to = count == PANEL ? out + first : edge_memory.of(n * PANEL);
        const int64_t to_stride = count == PANEL ? out_stride : PANEL;
        for (int64_t from = 0; from < k; from += MOST_WIDTH) {
            const int64_t width = std::min(MOST_WIDTH, k - from);
            const int64_t steps = (width + LANES - 1) / LANES;
            const int64_t filled = (width + COLUMNS - 1) / COLUMNS * COLUMNS;
            panel_of_columns(weights + first * weights_stride + from, weights_stride, count, width, halves);
            std::fill(halves + filled * PANEL, halves + steps * LANES * PANEL, 0);
            by_sums(halves, steps, panel);
            for (int64_t row = 0; row < n; row += PANEL_ROWS) {
                const int64_t there = std::min<int64_t>(PANEL_ROWS, n - row);
                read_rows(rows + row * rows_stride + from, rows_stride, there, width, some);
                with_rows<PANEL_ROWS>(there, [&](auto of) {
                    multiply_with_panel<of>(panel, steps, some, from == 0, to + row * to_stride, to_stride);
                });
            }
        }
        if (count == PANEL) continue;
        for (int64_t row = 0; row < n; row++) std::memcpy(out + row * out_stride + first, to + row * PANEL, count * sizeof(float));
    }
}

}  // namespace

/**
 * @param m rows of weights. @param n rows of the batch. @param k numbers in each.
 * @param rows rounded to f16, as ggml has them.
 * @param out [row of the batch][row of weights]
 * @return whether it was computed; every thread gets the same answer.
 */
extern "C" bool lookout_multiply_halves(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                        const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                        int64_t rows_stride, float * out, int64_t out_stride) {
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml_barrier(params->threadpool);
    if (n >= FEWEST_ROWS) multiply_panels(params, m, n, k, weights, weights_stride, rows, rows_stride, out, out_stride);
    else multiply_few(params, m, n, k, weights, weights_stride, rows, rows_stride, out, out_stride);
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
