// GEMM of f16 weights and a batch of f16 rows, with sums in f32, for x86 with AVX2 or AVX-512.
//
// ggml's sgemm.cpp converts each element from f16 again for every few rows, and reads the whole batch for every four rows of
// weights. Here, a few rows of the batch are converted to f32 once and stay in L1 while they are multiplied with several rows of
// weights (dot product kernel). For a larger batch, the weights are packed into panels, too (panel kernel): with 192 columns, as
// in the encoder of a small model, the horizontal sums of the dot products would take half of the time.
//
// The result of a row does not depend on the rest of the batch: both kernels add in the same order. Lane l of an accumulator sums
// the products of the elements l, l + LANES, ... of a block of KC columns. The lanes are then reduced as a binary tree, the lower
// half plus the upper half, and the sum of the block is added to the result.

#include "ggml-cpu-impl.h"
#include "panels.h"

#if defined(LOOKOUT_SIMD)

#include <algorithm>

namespace {

/** Register block of the dot product kernel: rows of weights and rows of the batch. Accumulators fit 32 or 16 registers. */
constexpr int DOT_WEIGHTS = 4;
constexpr int DOT_ROWS = LANES == 16 ? 6 : 3;
/** Columns of a cache block, as in BLIS: converted rows of the batch stay in L1. Another number changes how sums are rounded. */
constexpr int64_t KC = 1024;
/** Maximum rows of weights in a thread's chunk; they stay in L2. */
constexpr int64_t MAX_CHUNK_WEIGHTS = 128;
/** Elements of f16 in a cache line. */
constexpr int64_t LINE_F16 = CACHE_LINE / sizeof(ggml_fp16_t);
/** Elements from a weight to the one to prefetch. */
constexpr int64_t PREFETCH_DISTANCE = 1024;
/** Rows of the batch that the panel kernel has converted to f32 at a time: a multiple of PANEL_MICRO_ROWS. */
constexpr int64_t PACKED_ROWS = 48;
/** Maximum panels in a thread's chunk, and their bytes. They stay in L2 with the rows. */
constexpr int64_t MAX_CHUNK_PANELS = 8;
constexpr int64_t PANEL_BYTES = 128 << 10;
/** Minimum rows of a batch for the panel kernel. */
constexpr int64_t MIN_PANEL_ROWS = 40;

/** The horizontal sums of four vectors. */
inline __m128 reduce_add_4(const Floats * x) {
#if defined(LOOKOUT_AVX512)
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

/** Floats from one converted row of the batch to the next. */
constexpr int64_t packed_stride(int64_t width) { return (width + LANES - 1) / LANES * LANES + LANES; }
/** The same for the dot product kernel: a constant, so that one register addresses all its rows. */
constexpr int64_t DOT_STRIDE = packed_stride(KC);

/** Converts up to KC columns of some rows to f32, padded with zeros to whole vectors. @param to [row][to_stride] */
inline void pack_rows(const ggml_fp16_t * rows, int64_t stride, int64_t count, int64_t width, float * to, int64_t to_stride) {
    const int64_t whole = width / LANES * LANES;
    for (int64_t r = 0; r < count; r++, rows += stride, to += to_stride) {
        for (int64_t i = 0; i < whole; i += LANES) store(to + i, load_f16(rows + i));
        if (whole < width) store(to + whole, load_partial_f16(rows + whole, width - whole));
    }
}

/** Dot product kernel: DOT_WEIGHTS rows of weights times COUNT rows of the batch. */
template <int COUNT>
inline void dot_micro_kernel(const ggml_fp16_t * const * weights, const float * rows, int64_t width, __m128 * products) {
    Floats sums[COUNT][DOT_WEIGHTS];
    for (int r = 0; r < COUNT; r++) std::fill(sums[r], sums[r] + DOT_WEIGHTS, broadcast(0.0f));
    const auto add_products = [&](int64_t i, int64_t count_here) {
        Floats values[COUNT];
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) values[r] = pin_register(load(rows + r * DOT_STRIDE + i));
#pragma GCC unroll 4
        for (int w = 0; w < DOT_WEIGHTS; w++) {
            const Floats weight = pin_register(load_partial_f16(weights[w] + i, count_here));
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) sums[r][w] = fma(weight, values[r], sums[r][w]);
        }
    };
    int64_t i = 0;
    for (; i + LINE_F16 <= width; i += LINE_F16) {
        for (int w = 0; w < DOT_WEIGHTS; w++) _mm_prefetch((const char *) (weights[w] + i + PREFETCH_DISTANCE), _MM_HINT_T0);
#pragma GCC unroll 4
        for (int64_t j = i; j < i + LINE_F16; j += LANES) add_products(j, LANES);
    }
    for (; i < width; i += LANES) add_products(i, width - i);
    for (int r = 0; r < COUNT; r++) products[r] = reduce_add_4(sums[r]);
}

/**
 * The same for a chunk of weights.
 * @param rows [block of KC columns][row of the batch][DOT_STRIDE]
 * @param is_first whether `out`, [row of the batch][row of weights], is to be overwritten.
 */
template <int COUNT>
inline void gemm_dot_chunk(const ggml_fp16_t * weights, int64_t stride, int64_t count, const float * rows, int64_t width,
                           bool is_first, float * out, int64_t out_stride) {
    // As many sequential streams of reads as rows: one alone does not saturate the memory's bandwidth.
    const int64_t row_gap = count / DOT_WEIGHTS;
    const int64_t rest = count - row_gap * DOT_WEIGHTS;
    for (int64_t first = 0; first < row_gap + (rest > 0); first++) {
        const bool is_rest = first == row_gap;
        const int64_t count_here = is_rest ? rest : DOT_WEIGHTS;
        int64_t at[DOT_WEIGHTS];
        const ggml_fp16_t * weight_rows[DOT_WEIGHTS];
        for (int64_t w = 0; w < DOT_WEIGHTS; w++) {
            at[w] = is_rest ? DOT_WEIGHTS * row_gap + std::min(w, rest - 1) : first + w * row_gap;
            weight_rows[w] = weights + at[w] * stride;
        }
        for (int64_t from = 0; from < width; from += KC) {
            __m128 products[COUNT];
            dot_micro_kernel<COUNT>(weight_rows, rows + from / KC * COUNT * DOT_STRIDE, std::min(KC, width - from), products);
            for (int r = 0; r < COUNT; r++) {
                float * to = out + r * out_stride;
                alignas(16) float sums[DOT_WEIGHTS];
                _mm_store_ps(sums, products[r]);
                for (int64_t w = 0; w < count_here; w++) to[at[w]] = is_first && from == 0 ? sums[w] : to[at[w]] + sums[w];
            }
            for (const ggml_fp16_t *& row : weight_rows) row += KC;
        }
    }
}

/** See `parallel_rows`. */
inline int64_t gemm_size(int64_t m, int64_t n, int64_t k) { return m * n * k * (int64_t) sizeof(ggml_fp16_t); }

/** `lookout_gemm_f16` for a small batch. */
void gemm_dot(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const ggml_fp16_t * weights,
              int64_t weights_stride, const ggml_fp16_t * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    static thread_local AlignedBuffer<float> row_buffer;
    // Row blocks of about equal size.
    const int64_t blocks = (n + DOT_ROWS - 1) / DOT_ROWS;
    const int64_t block_rows = (n + blocks - 1) / blocks;
    // Weights that are multiplied again by another block of rows stay in L2 if they have few columns. All others are read from
    // memory once: whole rows, because the hardware prefetcher does not know where the next part of one begins.
    const int64_t columns = blocks > 1 ? KC : (k + KC - 1) / KC * KC;
    // In a shared library, each access to a thread's variable by its name is a call.
    AlignedBuffer<float> & buffer = row_buffer;
    parallel_rows(params, m, gemm_size(m, n, k), DOT_WEIGHTS, MAX_CHUNK_WEIGHTS, [&](int64_t first, int64_t end) {
        float * packed_rows = buffer.reserve(columns / KC * block_rows * DOT_STRIDE);
        for (int64_t from = 0; from < k; from += columns) {
            const int64_t width = std::min(columns, k - from);
            for (int64_t row = 0; row < n; row += block_rows) {
                const int64_t rows_here = std::min(block_rows, n - row);
                for (int64_t at = 0; at < width; at += KC) {
                    pack_rows(rows + row * rows_stride + from + at, rows_stride, rows_here, std::min(KC, width - at),
                              packed_rows + at / KC * rows_here * DOT_STRIDE, DOT_STRIDE);
                }
                with_constant<DOT_ROWS>(rows_here, [&](auto constant) {
                    gemm_dot_chunk<constant>(weights + first * weights_stride + from, weights_stride, end - first, packed_rows, width,
                                             from == 0, out + row * out_stride + first, out_stride);
                });
            }
        }
    });
}

/** Levels of the reduction tree: LANES partial sums are halved until one is left. */
constexpr int LEVELS = LANES == 16 ? 4 : 3;
/** Partial sums that are computed together, and the levels that reduce them. */
constexpr int REGISTER_SUMS = LANES == 16 ? 2 : 1;
constexpr int REGISTER_LEVELS = LANES == 16 ? 1 : 0;
/** Register block of the panel kernel: rows of the batch. Accumulators take 24 of 32 registers, or 12 of 16. */
constexpr int PANEL_MICRO_ROWS = 6;

/** The n-th partial sum in the order of the reduction tree, in which siblings are adjacent: n with its bits reversed. */
constexpr int bit_reversed(int n) {
    int number = 0;
    for (int bit = 0; bit < LEVELS; bit++) number |= (n >> bit & 1) << (LEVELS - 1 - bit);
    return number;
}

/** Converts a panel to f32, grouped by partial sum: [sum][step][PANEL_WIDTH]. @param steps vectors in a row of weights. */
inline void unpack_panel(const ggml_fp16_t * panel, int64_t steps, float * to) {
    for (int64_t row = 0; row < steps * LANES; row++) {
        float * at = to + (row % LANES * steps + row / LANES) * PANEL_WIDTH;
        store(at, load_f16(panel + row * PANEL_WIDTH));
        store(at + LANES, load_f16(panel + row * PANEL_WIDTH + LANES));
    }
}

/**
 * Panel kernel: a panel times COUNT rows of the batch, added in the order of `dot_micro_kernel` and `reduce_add_4`.
 * @param stride floats from one of the rows to the next.
 */
template <int COUNT>
void panel_micro_kernel(const float * panel, int64_t steps, const float * rows, int64_t stride, bool is_first, float * out,
                        int64_t out_stride) {
    constexpr int MAX_PENDING = LEVELS - REGISTER_LEVELS;
    Floats pending[MAX_PENDING][COUNT][2];
    for (int n = 0; n < LANES / REGISTER_SUMS; n++) {
        Floats sums[REGISTER_SUMS][COUNT][2];
        const float * weights[REGISTER_SUMS];
        const float * values[COUNT];
#pragma GCC unroll 4
        for (int s = 0; s < REGISTER_SUMS; s++) {
            weights[s] = panel + bit_reversed(n * REGISTER_SUMS + s) * steps * PANEL_WIDTH;
#pragma GCC unroll 8
            for (int r = 0; r < COUNT; r++) sums[s][r][0] = sums[s][r][1] = broadcast(0.0f);
        }
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) values[r] = rows + r * stride + bit_reversed(n * REGISTER_SUMS);
#pragma GCC unroll 2
        for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 4
            for (int s = 0; s < REGISTER_SUMS; s++) {
                const Floats left = load(weights[s] + step * PANEL_WIDTH);
                const Floats right = load(weights[s] + step * PANEL_WIDTH + LANES);
#pragma GCC unroll 8
                for (int r = 0; r < COUNT; r++) {
                    const Floats value = broadcast(values[r][step * LANES + bit_reversed(s)]);
                    sums[s][r][0] = fma(left, value, sums[s][r][0]);
                    sums[s][r][1] = fma(right, value, sums[s][r][1]);
                }
            }
        }
        int level = 0;
        while (n >> level & 1) level++;
#pragma GCC unroll 8
        for (int r = 0; r < COUNT; r++) {
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
#pragma GCC unroll 2
                for (int apart = 1; apart < REGISTER_SUMS; apart *= 2) {
#pragma GCC unroll 4
                    for (int s = 0; s < REGISTER_SUMS; s += 2 * apart) {
                        sums[s][r][half] = add(sums[s][r][half], sums[s + apart][r][half]);
                    }
                }
                Floats sum = sums[0][r][half];
                for (int i = 0; i < level; i++) sum = add(pending[i][r][half], sum);
                float * to = out + r * out_stride + half * LANES;
                if (level < MAX_PENDING) pending[level][r][half] = sum;
                else store(to, is_first ? sum : add(load(to), sum));
            }
        }
    }
}

/**
 * `lookout_gemm_f16` for a larger batch. As in BLIS, panels of weights and rows of the batch are converted to f32 once for a
 * chunk, and stay in L2 while they are multiplied.
 */
void gemm_panels(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const ggml_fp16_t * weights,
                 int64_t weights_stride, const ggml_fp16_t * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    static thread_local AlignedBuffer<ggml_fp16_t> half_buffer;
    static thread_local AlignedBuffer<float> panel_buffer, row_buffer, edge_buffer;
    const int64_t panel_floats = (std::min(k, KC) + LANES - 1) / LANES * LANES * PANEL_WIDTH;
    const int64_t max_panels = std::clamp<int64_t>(PANEL_BYTES / (panel_floats * (int64_t) sizeof(float)), 1, MAX_CHUNK_PANELS);
    ggml_fp16_t * packed = half_buffer.reserve(panel_floats);
    float * panels = panel_buffer.reserve(max_panels * panel_floats);
    float * packed_rows = row_buffer.reserve(PACKED_ROWS * packed_stride(std::min(k, KC)));
    const int64_t edge = m / PANEL_WIDTH * PANEL_WIDTH;
    float * edge_out = edge < m ? edge_buffer.reserve(n * PANEL_WIDTH) : nullptr;
    const auto gemm_chunk = [&](int64_t first, int64_t end) {
        for (int64_t from = 0; from < k; from += KC) {
            const int64_t width = std::min(KC, k - from);
            const int64_t steps = (width + LANES - 1) / LANES;
            const int64_t filled = (width + PACK_STEP - 1) / PACK_STEP * PACK_STEP;
            const int64_t stride = packed_stride(width);
            float * panel = panels;
            for (int64_t at = first; at < end; at += PANEL_WIDTH, panel += panel_floats) {
                const int64_t count = std::min<int64_t>(PANEL_WIDTH, m - at);
                pack_panel(weights + at * weights_stride + from, weights_stride, count, width, packed);
                std::fill(packed + filled * PANEL_WIDTH, packed + steps * LANES * PANEL_WIDTH, 0);
                unpack_panel(packed, steps, panel);
            }
            for (int64_t block = 0; block < n; block += PACKED_ROWS) {
                const int64_t block_end = std::min(n, block + PACKED_ROWS);
                pack_rows(rows + block * rows_stride + from, rows_stride, block_end - block, width, packed_rows, stride);
                panel = panels;
                for (int64_t at = first; at < end; at += PANEL_WIDTH, panel += panel_floats) {
                    float * to = at == edge ? edge_out : out + at;
                    const int64_t to_stride = at == edge ? PANEL_WIDTH : out_stride;
                    for (int64_t row = block; row < block_end; row += PANEL_MICRO_ROWS) {
                        with_constant<PANEL_MICRO_ROWS>(std::min<int64_t>(PANEL_MICRO_ROWS, block_end - row), [&](auto count) {
                            panel_micro_kernel<count>(panel, steps, packed_rows + (row - block) * stride, stride, from == 0,
                                                      to + row * to_stride, to_stride);
                        });
                    }
                }
            }
        }
        if (end <= edge) return;
        for (int64_t row = 0; row < n; row++) {
            std::memcpy(out + row * out_stride + edge, edge_out + row * PANEL_WIDTH, (m - edge) * sizeof(float));
        }
    };
    parallel_rows(params, m, gemm_size(m, n, k), PANEL_WIDTH, max_panels * PANEL_WIDTH, [&](int64_t first, int64_t end) {
        for (; first < end; first += max_panels * PANEL_WIDTH) gemm_chunk(first, std::min(end, first + max_panels * PANEL_WIDTH));
    });
}

}  // namespace

/**
 * `out` = `rows` `weights`^T.
 * @param m rows of weights. @param n rows of the batch. @param k columns of both.
 * @param out [row of the batch][row of weights]
 * @return false where the processor lacks AVX2.
 */
extern "C" bool lookout_gemm_f16(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                 const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                 int64_t rows_stride, float * out, int64_t out_stride) {
    if (n >= MIN_PANEL_ROWS) gemm_panels(params, m, n, k, weights, weights_stride, rows, rows_stride, out, out_stride);
    else gemm_dot(params, m, n, k, weights, weights_stride, rows, rows_stride, out, out_stride);
    return true;
}

#else

extern "C" bool lookout_gemm_f16(const ggml_compute_params *, int64_t, int64_t, int64_t, const ggml_fp16_t *,
                                 int64_t, const ggml_fp16_t *, int64_t, float *, int64_t) {
    return false;
}

#endif
