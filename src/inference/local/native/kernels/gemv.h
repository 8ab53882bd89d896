// GEMV: weights times a few rows of a batch, for which packing a panel costs more than it saves. See gemm.cpp.
//
// It reads the weights as the file has them, GEMV_BLOCKS blocks of four rows at a time. The dot product of a block is an integer,
// so the order of its sum does not matter. Blocks are then scaled and added one after another as in the GEMM micro-kernel, so a
// result has the same bits.
#pragma once

namespace {

/** Scales the dot products of BLOCKS blocks, from BLOCK on, and adds them to `result`, one block after another. */
template <int BLOCK, int BLOCKS, bool HAS_MIN>
inline __m128 accumulate_blocks(__m128 result, const VectorF32 & scales, const VectorF32 & sums, const VectorF32 & min_scales,
                                const VectorF32 & mins) {
    if constexpr (BLOCK == BLOCKS) {
        return result;
    } else {
        result = _mm_fmadd_ps(lane_of_block<BLOCK>(scales), lane_of_block<BLOCK>(sums), result);
        if constexpr (HAS_MIN) result = _mm_fnmadd_ps(lane_of_block<BLOCK>(min_scales), lane_of_block<BLOCK>(mins), result);
        return accumulate_blocks<BLOCK + 1, BLOCKS, HAS_MIN>(result, scales, sums, min_scales, mins);
    }
}

/** Adds the products of BLOCKS blocks, from the block `b` on, to the results. @param from the blocks of four rows of weights. */
template <typename Block, int COUNT, int BLOCKS>
[[gnu::always_inline]] inline void add_blocks(const Block * const * from, const Activations<NR> & batch, int64_t b, int64_t blocks,
                                              __m128 * results) {
    using Of = QuantTraits<Block>;
    ggml_half scales_f16[4 * GEMV_BLOCKS] = {}, min_f16s[4 * GEMV_BLOCKS] = {};
#pragma GCC unroll 4
    for (int row = 0; row < 4; row++) {
#pragma GCC unroll 4
        for (int i = 0; i < BLOCKS; i++) {
            scales_f16[4 * i + row] = scale_bits(from[row][i]);
            if constexpr (Of::HAS_MIN) min_f16s[4 * i + row] = from[row][i].dmin;
        }
    }
    VectorI32 sums[COUNT], mins[COUNT];
    if constexpr (Of::GROUPS == 1) dot_single_scale<Block, COUNT>(from, batch, b, blocks, sums);
    else dot_sub_scales<Block, COUNT, BLOCKS>(from, batch, b, blocks, sums, mins);
    const VectorF32 scales = load_scales<Block>(scales_f16);
    for (int r = 0; r < COUNT; r++) {
        const VectorF32 block_scales = repeat_4(batch.block_scales + r * blocks + b);
        const VectorI32 dots = NEEDS_ZERO_POINT<Of> ? add(sums[r], repeat_4(batch.block_zero_terms + r * blocks + b)) : sums[r];
        VectorF32 min_scales, min_sums;
        if constexpr (Of::HAS_MIN) {
            min_scales = multiply(load_f16(min_f16s), block_scales);
            min_sums = to_f32(mins[r]);
        }
        results[r] = accumulate_blocks<0, BLOCKS, Of::HAS_MIN>(results[r], multiply(scales, block_scales), to_f32(dots), min_scales,
                                                               min_sums);
    }
}

/**
 * Multiplies four rows of weights, each `row_gap` rows after the one before, with COUNT rows of the batch.
 * @param blocks of each row.
 * @param out results of each row of the batch, of which `at` is the first row of weights.
 */
template <typename Block, int COUNT>
inline void gemv(const Block * weights, int64_t weights_stride, int64_t row_gap, const Activations<NR> & batch,
                 int64_t blocks, float * const * out, int64_t at) {
    __m128 results[COUNT];
    for (int r = 0; r < COUNT; r++) results[r] = _mm_setzero_ps();
    const Block * from[4];
    for (int row = 0; row < 4; row++) from[row] = weights + row * row_gap * weights_stride;
    int64_t b = 0;
    const auto add = [&](auto count) {
        add_blocks<Block, COUNT, count>(from, batch, b, blocks, results);
        b += count;
        for (int row = 0; row < 4; row++) from[row] += count;
    };
    while (b + GEMV_BLOCKS <= blocks) add(std::integral_constant<int, GEMV_BLOCKS>());
    if constexpr (QuantTraits<Block>::GROUPS > 1) {
        while (b < blocks) add(std::integral_constant<int, 1>());
    } else if (b < blocks) {
        // GEMV_BLOCKS blocks are read in any case.
        Block rest[4][GEMV_BLOCKS] = {};
        for (int row = 0; row < 4; row++) {
            std::memcpy(rest[row], from[row], (blocks - b) * sizeof(Block));
            from[row] = rest[row];
        }
        with_constant<GEMV_BLOCKS - 1>(blocks - b, add);
    }
    for (int r = 0; r < COUNT; r++) {
        alignas(16) float row_sums[4];
        _mm_store_ps(row_sums, results[r]);
        for (int row = 0; row < 4; row++) out[r][at + row * row_gap] = row_sums[row];
    }
}

}  // namespace
