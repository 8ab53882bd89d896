// Multithreaded GEMM of quantised weights and a batch of rows. See gemm.cpp.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include "gemm-amx.h"
#else
#include "gemm-avx2.h"
#endif
#include "gemv.h"


namespace {

/** Maximum rows of weights in a thread's chunk. */
constexpr int64_t MAX_CHUNK = 16 * MR;

#if defined(LOOKOUT_AMX)

/** Minimum rows of a batch for which AMX tiles are faster than vectors. */
constexpr int64_t MIN_AMX_ROWS = 28;

/** `gemm` on AMX tiles. */
template <typename Block>
void gemm_amx(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
              int64_t weights_stride, const block_q8_K * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    static thread_local ActivationTiles batch_of_thread;
    ActivationTiles & batch = batch_of_thread;
    batch.pack<QuantTraits<Block>>(rows, rows_stride, n, blocks);
    const TileConfigScope tile_config;
    parallel_rows(params, m, m * blocks * (int64_t) sizeof(Block) * n, MR, MAX_CHUNK, [&](int64_t first, int64_t end) {
        while (first < end) {
            const int64_t count = std::min<int64_t>(TILE_PANELS * MR, end - first);
            const Block * from = weights + first * weights_stride;
            if (count > MR) gemm_panels_amx<Block, 2>(from, weights_stride, count, batch, n, out + first, out_stride);
            else gemm_panels_amx<Block, 1>(from, weights_stride, count, batch, n, out + first, out_stride);
            first += count;
        }
    });
}

#endif

/**
 * `out` = `rows` `weights`^T.
 * @param m rows of weights. @param n rows of the batch. @param blocks in each row. @param out [row of the batch][row of weights]
 */
template <typename Block>
void gemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
          int64_t weights_stride, const typename QuantTraits<Block>::Activation * rows, int64_t rows_stride, float * out,
          int64_t out_stride) {
    using Of = QuantTraits<Block>;
#if defined(LOOKOUT_AMX)
    if constexpr (Of::GROUPS > 1) {
        if (n >= MIN_AMX_ROWS && has_amx()) {
            return gemm_amx(params, m, n, blocks, weights, weights_stride, rows, rows_stride, out, out_stride);
        }
    }
#endif
    static thread_local Activations<NR> batch_of_thread;
    static thread_local WeightPanel panels_of_thread[MICRO_PANELS<Of>];
    // In a shared library, each access to a thread's variable by its name is a call.
    Activations<NR> & batch = batch_of_thread;
    WeightPanel * panels = panels_of_thread;
    const int64_t width = blocks * Of::GROUPS * GROUP;
    batch.pack<Of>(rows, rows_stride, n, blocks);
    const bool use_gemv = n <= MAX_GEMV_ROWS<Of> && (Of::GROUPS > 1 || blocks % GEMV_BLOCKS == 0);
    parallel_rows(params, m, m * blocks * (int64_t) sizeof(Block) * n, MR, MAX_CHUNK, [&](int64_t first, int64_t end) {
        if (use_gemv) {
            // Four sequential streams of reads: one alone does not saturate the memory's bandwidth.
            const int64_t row_gap = (end - first) / 4;
            for (int64_t at = first; at < first + row_gap; at++) {
                const Block * from = weights + at * weights_stride;
                with_constant<MAX_GEMV_ROWS<Of>>(n, [&](auto rows_constant) {
                    gemv<Block, rows_constant>(from, weights_stride, row_gap, batch, blocks, out + at, out_stride);
                });
            }
            first += 4 * row_gap;
        }
        while (first < end) {
            int64_t panel_count_here = 0;
            int64_t count = 0;
            for (; panel_count_here < MICRO_PANELS<Of> && first + panel_count_here * MR < end; panel_count_here++) {
                const int64_t at = first + panel_count_here * MR;
                count = std::min<int64_t>(MR, end - at);
                panels[panel_count_here].pack(weights + at * weights_stride, weights_stride, count, blocks);
            }
            for (int64_t row = 0; row < n; row += NR) {
                float * to = out + row * out_stride + first;
                with_constant<MICRO_PANELS<Of>>(panel_count_here, [&](auto panel_count) {
                    with_constant<NR>(std::min<int64_t>(NR, n - row), [&](auto row_count) {
                        micro_kernel<Of, row_count, panel_count>(panels, batch, row, width, to, out_stride, count);
                    });
                });
            }
            first += panel_count_here * MR;
        }
    });
}

}  // namespace
