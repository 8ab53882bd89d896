// Multithreaded GEMM of quantised weights and a batch of rows. See gemm.cpp.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#include "gemm-amx.h"
#else
#include "gemm-avx2.h"
#endif
#include "gemv.h"

#include <atomic>
#include <tuple>

namespace {

/** Calls a function with weights as their type's blocks. @returns whether the type is one of ours. */
template <typename Call> bool with_blocks(int type, const void * weights, const Call & call) {
    switch (type) {
        case GGML_TYPE_Q4_0: return call((const block_q4_0 *) weights), true;
        case GGML_TYPE_Q5_0: return call((const block_q5_0 *) weights), true;
        case GGML_TYPE_Q8_0: return call((const block_q8_0 *) weights), true;
        case GGML_TYPE_IQ4_NL: return call((const block_iq4_nl *) weights), true;
        case GGML_TYPE_MXFP4: return call((const block_mxfp4 *) weights), true;
        case GGML_TYPE_Q4_K: return call((const block_q4_K *) weights), true;
        case GGML_TYPE_Q5_K: return call((const block_q5_K *) weights), true;
        case GGML_TYPE_Q6_K: return call((const block_q6_K *) weights), true;
        default: return false;
    }
}

/** Maximum rows of weights in a thread's chunk. */
constexpr int64_t MAX_CHUNK = 16 * MR;

#if defined(LOOKOUT_AMX)
/** Minimum rows of a batch for which AMX tiles are faster than vectors. */
constexpr int64_t MIN_AMX_ROWS = 28;
#endif

/** A thread's copy of a batch, which it multiplies with rows of weights. Its rows, and their results, may lie anywhere. */
template <typename Block> class Batch {
    using Of = QuantTraits<Block>;
    using Row = typename Of::Activation;

    int64_t blocks;
    std::vector<const Row *> rows;
    std::vector<float *> out;
    Activations<NR> activations;
    WeightPanel panels[MICRO_PANELS<Of>];
#if defined(LOOKOUT_AMX)
    ActivationTiles tiles;

    bool uses_tiles() const { return Of::GROUPS > 1 && (int64_t) rows.size() >= MIN_AMX_ROWS && has_amx(); }

    void multiply_tiles(const Block * weights, int64_t stride, int64_t first, int64_t end) {
        const TileConfigScope tile_config;
        const int64_t n = rows.size();
        while (first < end) {
            const int64_t count = std::min<int64_t>(TILE_PANELS * MR, end - first);
            const Block * from = weights + first * stride;
            if (count > MR) gemm_panels_amx<Block, 2>(from, stride, count, tiles, n, out.data(), first);
            else gemm_panels_amx<Block, 1>(from, stride, count, tiles, n, out.data(), first);
            first += count;
        }
    }
#endif

  public:
    /**
     * @param n rows. @param blocks_of_row in each of them, and in each row of weights.
     * @param place returns where a row is, and where its results go: [row of weights].
     */
    template <typename Place> void pack(int64_t n, int64_t blocks_of_row, const Place & place) {
        blocks = blocks_of_row;
        rows.resize(n);
        out.resize(n);
        for (int64_t row = 0; row < n; row++) std::tie(rows[row], out[row]) = place(row);
#if defined(LOOKOUT_AMX)
        if constexpr (Of::GROUPS > 1) {
            if (uses_tiles()) return tiles.template pack<Of>(rows.data(), n, blocks);
        }
#endif
        activations.template pack<Of>(rows.data(), n, blocks);
    }

    /** Multiplies with the rows of weights from `first` to `end`. @param stride blocks from one to the next. */
    void multiply(const Block * weights, int64_t stride, int64_t first, int64_t end) {
#if defined(LOOKOUT_AMX)
        if constexpr (Of::GROUPS > 1) {
            if (uses_tiles()) return multiply_tiles(weights, stride, first, end);
        }
#endif
        const int64_t n = rows.size();
        const int64_t width = blocks * Of::GROUPS * GROUP;
        if (n <= MAX_GEMV_ROWS<Of>) {
            // Four sequential streams of reads: one alone does not saturate the memory's bandwidth.
            const int64_t row_gap = (end - first) / 4;
            for (int64_t at = first; at < first + row_gap; at++) {
                const Block * from = weights + at * stride;
                with_constant<MAX_GEMV_ROWS<Of>>(n, [&](auto rows_constant) {
                    gemv<Block, rows_constant>(from, stride, row_gap, activations, blocks, out.data(), at);
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
                panels[panel_count_here].pack(weights + at * stride, stride, count, blocks);
            }
            for (int64_t row = 0; row < n; row += NR) {
                with_constant<MICRO_PANELS<Of>>(panel_count_here, [&](auto panel_count) {
                    with_constant<NR>(std::min<int64_t>(NR, n - row), [&](auto row_count) {
                        micro_kernel<Of, row_count, panel_count>(panels, activations, row, width, out.data() + row, first, count);
                    });
                });
            }
            first += panel_count_here * MR;
        }
    }

    /** The calling thread's. In a shared library, each access to a thread's variable by its name is a call. */
    static Batch & of_thread() {
        static thread_local Batch batch;
        return batch;
    }
};

/**
 * `out` = `rows` `weights`^T.
 * @param m rows of weights. @param n rows of the batch. @param blocks in each row. @param out [row of the batch][row of weights]
 */
template <typename Block>
void gemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
          int64_t weights_stride, const typename QuantTraits<Block>::Activation * rows, int64_t rows_stride, float * out,
          int64_t out_stride) {
    Batch<Block> & batch = Batch<Block>::of_thread();
    batch.pack(n, blocks, [&](int64_t row) { return std::pair(rows + row * rows_stride, out + row * out_stride); });
    parallel_rows(params, m, m * blocks * (int64_t) sizeof(Block) * n, MR, MAX_CHUNK,
                  [&](int64_t first, int64_t end) { batch.multiply(weights, weights_stride, first, end); });
}

/**
 * The row of a token that is multiplied with an expert, and which of the token's experts it is. ggml's
 * `mmid_row_mapping`.
 */
struct ExpertRow {
    int32_t choice;
    int32_t token;
};

/** Reading a row of weights takes about as long as multiplying it with this many rows of a batch. */
constexpr int64_t WEIGHT_COST = 4;

/**
 * Multiplies each token's rows with its chosen experts. Threads take chunks of all experts' weights, one expert after
 * another, so that there is no barrier between two experts.
 * @param out ggml's `mul_mat_id`: its sources are the weights, the rows and the choices.
 * @param quantised the rows.
 * @param counts of each expert's rows.
 * @param choices [expert][row], each expert with room for all rows.
 * @param next_chunk a counter that starts at the number of threads.
 */
template <typename Block>
void gemm_experts(const ggml_compute_params * params, const ggml_tensor & out, const void * quantised, const int64_t * counts,
                  const ExpertRow * choices, std::atomic<int> & next_chunk) {
    using Of = QuantTraits<Block>;
    const ggml_tensor & weights = *out.src[0];
    const int64_t blocks = weights.ne[0] / (Of::GROUPS * GROUP), m = weights.ne[1], experts = weights.ne[2];
    const int64_t rows_of_token = out.src[1]->ne[1];
    const int64_t all_choices = out.ne[1] * out.ne[2];
    int64_t cost = all_choices;
    for (int64_t expert = 0; expert < experts; expert++) cost += counts[expert] > 0 ? WEIGHT_COST : 0;
    Batch<Block> & batch = Batch<Block>::of_thread();
    int64_t chunk = params->ith, first_chunk = 0;
    for (int64_t expert = 0; expert < experts; expert++, choices += all_choices) {
        const int64_t n = counts[expert];
        if (n == 0) continue;
        const int64_t share = m * cost / (CHUNKS_PER_THREAD * params->nth * (n + WEIGHT_COST));
        const int64_t size = std::max<int64_t>(1, std::min(share, m + MR - 1) / MR) * MR;
        const int64_t chunks = (m + size - 1) / size;
        if (chunk < first_chunk + chunks) {
            batch.pack(n, blocks, [&](int64_t row) {
                const auto [choice, token] = choices[row];
                const auto * from = (const typename Of::Activation *) quantised;
                return std::pair(from + (token * rows_of_token + choice % rows_of_token) * blocks,
                                 (float *) ((char *) out.data + choice * out.nb[1] + token * out.nb[2]));
            });
        }
        for (; chunk < first_chunk + chunks; chunk = next_chunk.fetch_add(1, std::memory_order_relaxed)) {
            const int64_t first = (chunk - first_chunk) * size;
            batch.multiply((const Block *) ((const char *) weights.data + expert * weights.nb[2]), weights.nb[1] / sizeof(Block),
                           first, std::min(m, first + size));
        }
        first_chunk += chunks;
    }
}

}  // namespace
