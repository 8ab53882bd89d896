// GEMV: weights times a few rows of a batch, for which packing a panel costs more than it saves. See gemm.cpp.
//
// It reads the weights as the file has them, GEMV_BLOCKS blocks of four rows at a time. The dot product of a block is an integer,
// so the order of its sum does not matter. Blocks are then scaled and added one after another as in the GEMM micro-kernel, so a
// result has the same bits.
#pragma once

namespace {

/** Scales the dot products of each block, from BLOCK on, and adds them to `result`, one block after another. */
template <int BLOCK, bool HAS_MIN>
inline __m128 accumulate_blocks(__m128 result, int64_t count_here, const VectorF32 & scales, const VectorF32 & sums,
                                const VectorF32 & min_scales,
                                const VectorF32 & mins) {
    if constexpr (BLOCK == GEMV_BLOCKS) {
        return result;
    } else {
        if (BLOCK > 0 && BLOCK >= count_here) return result;
        result = _mm_fmadd_ps(lane_of_block<BLOCK>(scales), lane_of_block<BLOCK>(sums), result);
        if constexpr (HAS_MIN) result = _mm_fnmadd_ps(lane_of_block<BLOCK>(min_scales), lane_of_block<BLOCK>(mins), result);
        return accumulate_blocks<BLOCK + 1, HAS_MIN>(result, count_here, scales, sums, min_scales, mins);
    }
}

/** Multiplies four rows of weights, each `row_gap` rows after the one before, with COUNT rows of the batch. */
template <typename Block, int COUNT>
inline void gemv(const Block * weights, int64_t weights_stride, int64_t row_gap, const Activations<NR> & batch,
                 int64_t blocks, float * out, int64_t stride) {
    using Of = QuantTraits<Block>;
    __m128 results[COUNT];
    for (int r = 0; r < COUNT; r++) results[r] = _mm_setzero_ps();
    for (int64_t b = 0; b < blocks; b += GEMV_BLOCKS) {
        const int64_t count_here = Of::GROUPS == 1 ? GEMV_BLOCKS : std::min<int64_t>(GEMV_BLOCKS, blocks - b);
        const Block * from[4];
        ggml_half scales_f16[4 * GEMV_BLOCKS], min_f16s[4 * GEMV_BLOCKS];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            from[row] = weights + row * row_gap * weights_stride + b;
#pragma GCC unroll 4
            for (int i = 0; i < GEMV_BLOCKS; i++) {
                const Block & block = from[row][Of::GROUPS == 1 ? i : std::min<int64_t>(i, count_here - 1)];
                scales_f16[4 * i + row] = block.d;
                if constexpr (Of::HAS_MIN) min_f16s[4 * i + row] = block.dmin;
            }
        }
        VectorI32 sums[COUNT], mins[COUNT];
        if constexpr (Of::GROUPS == 1) dot_single_scale<Block, COUNT>(from, batch, b, blocks, sums);
        else dot_sub_scales<Block, COUNT>(from, batch, b, blocks, count_here, sums, mins);
        const VectorF32 scales = load_f16(scales_f16);
        for (int r = 0; r < COUNT; r++) {
            const VectorF32 block_scales = repeat_4(batch.block_scales + r * blocks + b);
            const VectorI32 dots =
                NEEDS_ZERO_POINT<Of> ? add(sums[r], repeat_4(batch.block_zero_terms + r * blocks + b)) : sums[r];
            VectorF32 min_scales, min_sums;
            if constexpr (Of::HAS_MIN) {
                min_scales = multiply(load_f16(min_f16s), block_scales);
                min_sums = to_f32(mins[r]);
            }
            results[r] = accumulate_blocks<0, Of::HAS_MIN>(results[r], count_here, multiply(scales, block_scales), to_f32(dots),
                                                           min_scales,
                                                           min_sums);
        }
    }
    for (int r = 0; r < COUNT; r++) {
        alignas(16) float row_sums[4];
        _mm_store_ps(row_sums, results[r]);
        for (int row = 0; row < 4; row++) out[r * stride + row * row_gap] = row_sums[row];
    }
}

}  // namespace
