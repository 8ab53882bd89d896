// Products of a matrix of quantised weights and a batch, shared by all threads. See product.cpp.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include "product-tiles.h"
#else
#include "product-narrow.h"
#endif
#include "product-few.h"

extern "C" void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
extern "C" int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);

namespace {

/** Panels that a thread takes at a time, at most. */
constexpr int64_t MOST_PANELS = 16;
/** Parts that a thread should have of each product, so that one that has lost its core holds up the others less. */
constexpr int64_t PARTS = 4;

/**
 * Has the threads do parts of a product, whoever is free the next one.
 * @param work called with the first row of weights of a part and the one after the last.
 */
template <typename Work> void share(const ggml_compute_params * params, int64_t m, const Work & work) {
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml_barrier(params->threadpool);
    const int64_t panels = (m + LANES - 1) / LANES;
    const int64_t rows = LANES * std::clamp<int64_t>(panels / (PARTS * params->nth), 1, MOST_PANELS);
    const int64_t parts = (m + rows - 1) / rows;
    for (int64_t part = params->ith; part < parts; part = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        work(part * rows, std::min(m, (part + 1) * rows));
    }
    // The next product sets the counter.
    ggml_barrier(params->threadpool);
}

#if defined(LOOKOUT_TILES)

/** Rows of the batch from which on tiles are faster than vectors. */
constexpr int64_t LEAST_TILE_ROWS = 28;

/** What `product` does, on tiles. */
template <typename Block>
void product_on_tiles(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
                      int64_t weights_stride, const block_q8_K * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    static thread_local Columns batch;
    batch.read<Type<Block>>(rows, rows_stride, n, blocks);
    const TileSetting setting;
    share(params, m, [&](int64_t first, int64_t end) {
        while (first < end) {
            const int64_t count = std::min<int64_t>(TILE_PANELS * LANES, end - first);
            const Block * some = weights + first * weights_stride;
            if (count > LANES) multiply_panels<Block, 2>(some, weights_stride, count, batch, n, out + first, out_stride);
            else multiply_panels<Block, 1>(some, weights_stride, count, batch, n, out + first, out_stride);
            first += count;
        }
    });
}

#endif

/** Calls a function with a number from 1 to MOST as a constant. */
template <int MOST, typename Call> inline void with_constant(int64_t number, const Call & call) {
    if constexpr (MOST > 1) {
        if (number < MOST) return with_constant<MOST - 1>(number, call);
    }
    call(std::integral_constant<int, MOST>());
}

/** @param m rows of weights. @param n rows of the batch. @param out [row of the batch][row of weights] */
template <typename Block>
void product(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
             int64_t weights_stride, const typename Type<Block>::Row * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    using Of = Type<Block>;
#if defined(LOOKOUT_TILES)
    if constexpr (Of::GROUPS > 1) {
        if (n >= LEAST_TILE_ROWS && has_tiles()) {
            return product_on_tiles(params, m, n, blocks, weights, weights_stride, rows, rows_stride, out, out_stride);
        }
    }
#endif
    static thread_local Batch<TOGETHER> batch;
    static thread_local Panel panels[PANELS<Of>];
    const int64_t width = blocks * Of::GROUPS * GROUP;
    batch.read<Of>(rows, rows_stride, n, blocks);
    const bool are_few = n <= FEW<Of> && (Of::GROUPS > 1 || blocks % FEW_BLOCKS == 0);
    share(params, m, [&](int64_t first, int64_t end) {
        if (are_few) {
            // From four places, each read on and on: one stream of reads does not use all of the memory's speed.
            const int64_t apart = (end - first) / 4;
            for (int64_t at = first; at < first + apart; at++) {
                const Block * some = weights + at * weights_stride;
                with_constant<FEW<Of>>(n, [&](auto all) {
                    multiply_few<Block, all>(some, weights_stride, apart, batch, blocks, out + at, out_stride);
                });
            }
            first += 4 * apart;
        }
        while (first < end) {
            int64_t together = 0;
            int64_t count = 0;
            for (; together < PANELS<Of> && first + together * LANES < end; together++) {
                const int64_t at = first + together * LANES;
                count = std::min<int64_t>(LANES, end - at);
                panels[together].read(weights + at * weights_stride, weights_stride, count, blocks);
            }
            for (int64_t row = 0; row < n; row += TOGETHER) {
                float * to = out + row * out_stride + first;
                with_constant<PANELS<Of>>(together, [&](auto of) {
                    with_constant<TOGETHER>(std::min<int64_t>(TOGETHER, n - row), [&](auto some) {
                        multiply<Of, some, of>(panels, batch, row, width, to, out_stride, count);
                    });
                });
            }
            first += together * LANES;
        }
    });
}

}  // namespace
