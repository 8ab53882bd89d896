// Products of weights and few rows of a batch, for which a panel costs more than it saves. See product.cpp.
//
// Weights are multiplied as the file has them, some blocks of four rows at a time. The sums of a block's products are whole
// numbers, so their order does not matter. They are then scaled and added as those of panels are, one block after another, so
// that a result has the same bits as a panel's.
#pragma once

namespace {

/** Adds the scaled sums of a block to those before it, then the next block's. */
template <int BLOCK, bool HAS_MINIMUM>
inline __m128 add_blocks(__m128 total, int64_t there, const Numbers & scales, const Numbers & sums, const Numbers & minimum_scales,
                         const Numbers & minima) {
    if constexpr (BLOCK == FEW_BLOCKS) {
        return total;
    } else {
        if (BLOCK > 0 && BLOCK >= there) return total;
        total = _mm_fmadd_ps(of_block<BLOCK>(scales), of_block<BLOCK>(sums), total);
        if constexpr (HAS_MINIMUM) total = _mm_fnmadd_ps(of_block<BLOCK>(minimum_scales), of_block<BLOCK>(minima), total);
        return add_blocks<BLOCK + 1, HAS_MINIMUM>(total, there, scales, sums, minimum_scales, minima);
    }
}

/** The products of four rows of weights, of which each lies `apart` rows from the one before, and COUNT rows of the batch. */
template <typename Block, int COUNT>
inline void multiply_few(const Block * weights, int64_t weights_stride, int64_t apart, const Batch<TOGETHER> & batch,
                         int64_t blocks, float * out, int64_t stride) {
    using Of = Type<Block>;
    __m128 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm_setzero_ps();
    for (int64_t b = 0; b < blocks; b += FEW_BLOCKS) {
        const int64_t there = Of::GROUPS == 1 ? FEW_BLOCKS : std::min<int64_t>(FEW_BLOCKS, blocks - b);
        const Block * from[4];
        ggml_half halves[4 * FEW_BLOCKS], minimum_halves[4 * FEW_BLOCKS];
#pragma GCC unroll 4
        for (int row = 0; row < 4; row++) {
            from[row] = weights + row * apart * weights_stride + b;
#pragma GCC unroll 4
            for (int i = 0; i < FEW_BLOCKS; i++) {
                const Block & block = from[row][Of::GROUPS == 1 ? i : std::min<int64_t>(i, there - 1)];
                halves[4 * i + row] = block.d;
                if constexpr (Of::HAS_MINIMUM) minimum_halves[4 * i + row] = block.dmin;
            }
        }
        Vector sums[COUNT], minima[COUNT];
        if constexpr (Of::GROUPS == 1) sum_blocks_of_one_scale<Block, COUNT>(from, batch, b, blocks, sums);
        else sum_blocks_of_scales<Block, COUNT>(from, batch, b, blocks, there, sums, minima);
        const Numbers scales = numbers_of_halves(halves);
        for (int r = 0; r < COUNT; r++) {
            const Numbers row_scales = four_times(batch.row_scales + r * blocks + b);
            const Vector whole = LACKS_ZEROS<Of> ? add(sums[r], four_times(batch.row_zeros + r * blocks + b)) : sums[r];
            Numbers minimum_scales, minimum_sums;
            if constexpr (Of::HAS_MINIMUM) {
                minimum_scales = times(numbers_of_halves(minimum_halves), row_scales);
                minimum_sums = numbers(minima[r]);
            }
            totals[r] = add_blocks<0, Of::HAS_MINIMUM>(totals[r], there, times(scales, row_scales), numbers(whole), minimum_scales,
                                                       minimum_sums);
        }
    }
    for (int r = 0; r < COUNT; r++) {
        alignas(16) float of_rows[4];
        _mm_store_ps(of_rows, totals[r]);
        for (int row = 0; row < 4; row++) out[r * stride + row * apart] = of_rows[row];
    }
}

}  // namespace
