// GEMM on AMX tiles for larger batches, for weights whose blocks have several scales: Q4_K, Q5_K and Q6_K. See gemm.cpp.
//
// A weight times its sub-block's scale is an integer of up to 14 bits. Its low and its high byte go into separate tiles, so the
// accumulators only lack the block's own scale. ggml scales the accumulators for every 32 or 16 weights, which fill a half or a
// quarter of a tile; that takes longer than multiplying. For types with an f16 scale for every 32 weights, tiles are therefore
// no faster than vectors.
//
// A weight tile (the A matrix) holds sixteen rows as they are. A tile of the batch (B, in VNNI layout) holds four neighbouring
// values of each of sixteen rows in a tile row. A tile of sums (C) has a row for each row of weights and a lane for each row of
// the batch.
#pragma once

#include "amx-tiles.h"

#if defined(LOOKOUT_AMX)

namespace {

/** Columns of C: rows of the batch in a tile. */
constexpr int TILE_COLUMNS = 16;
/** Elements of C. */
constexpr int TILE_ELEMENTS = MR * TILE_COLUMNS;
/** Tiles for the low, or for the high, bytes of a panel's block. */
constexpr int BLOCK_TILES = QK_K / CACHE_LINE;
/** Panels that are multiplied with a tile of the batch while it is loaded. */
constexpr int TILE_PANELS = 2;
/** Mins of a block. */
constexpr int MINS = QK_K / GROUP;
/** First tile registers for C, A and B. */
constexpr int SUM_TILE = 0, WEIGHT_TILE = 4, VALUE_TILE = 6;

/** Converts numbers that bf16 represents exactly. */
inline __m128i exact_bf16(__m256 numbers) {
    return _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm256_castps_si256(numbers), 16));
}

/** One block of a panel. */
struct alignas(CACHE_LINE) PanelBlock {
    /** Low and high bytes of weights times scales: [tile][row][weight]. */
    uint8_t lower[BLOCK_TILES][MR][CACHE_LINE];
    int8_t upper[BLOCK_TILES][MR][CACHE_LINE];
    /** The mins as bf16, twice, then zeros: [row][element]. */
    uint16_t mins[MR][CACHE_LINE / sizeof(uint16_t)];
    float scales[MR];
    float min_scales[MR];

    /**
     * @param weights the block of the first row; rows are `stride` blocks apart.
     * @param count rows, from 1 to MR; the last one is repeated in the remaining lanes.
     */
    template <typename Block> void pack(const Block * weights, int64_t stride, int64_t count) {
        using Of = QuantTraits<Block>;
        for (int lane = 0; lane < MR; lane++) {
            const Block & block = weights[std::min<int64_t>(lane, count - 1) * stride];
            // The same block of the panel after next.
            const char * next = (const char *) (&block + TILE_PANELS * MR * stride);
            for (int64_t at = 0; at < (int64_t) sizeof(Block); at += CACHE_LINE) _mm_prefetch(next + at, _MM_HINT_T1);
            scales[lane] = to_f32(block.d);
            const __m512i all_scales = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(Of::sub_scales(block)));
#pragma GCC unroll 4
            for (int tile = 0; tile < BLOCK_TILES; tile++) {
                const __m512i bytes = _mm512_inserti64x4(
                    _mm512_castsi256_si512(Of::unpack(block, 2 * tile)), Of::unpack(block, 2 * tile + 1), 1);
                const __m512i scale = _mm512_permutexvar_epi16(scale_indices<Of>(tile), all_scales);
                __m512i even = _mm512_mullo_epi16(_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), scale);
                __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(bytes, 8), scale);
                if constexpr (Of::ZERO_POINT != 0) {
                    const __m512i zero = _mm512_mullo_epi16(scale, _mm512_set1_epi16(Of::ZERO_POINT));
                    even = _mm512_sub_epi16(even, zero);
                    odd = _mm512_sub_epi16(odd, zero);
                }
                // Bitwise select: the third operand where the first is set, else the second.
                constexpr int CHOOSE = 0xac;
                const __m512i low = _mm512_set1_epi16(0xff);
                _mm512_store_si512(lower[tile][lane], _mm512_ternarylogic_epi32(low, _mm512_slli_epi16(odd, 8), even, CHOOSE));
                _mm512_store_si512(upper[tile][lane], _mm512_ternarylogic_epi32(low, odd, _mm512_srli_epi16(even, 8), CHOOSE));
            }
            if constexpr (Of::HAS_MIN) {
                min_scales[lane] = to_f32(block.dmin);
                const __m256i twice = _mm256_broadcastsi128_si256(exact_bf16(u8x8_to_f32(Of::packed_mins(block))));
                _mm512_store_si512(mins[lane], _mm512_zextsi256_si512(twice));
            }
        }
    }
};

/** The rows of a batch, packed into tiles of TILE_COLUMNS rows. */
struct ActivationTiles {
    /** Elements of a column's block in `sums`. A tile load reads as many again, which the zeros in `mins` multiply. */
    static constexpr int BLOCK_SUMS = 2 * MINS * TILE_COLUMNS;

    AlignedBuffer<int8_t> quants_buffer;
    AlignedBuffer<float> scales_buffer;
    AlignedBuffer<uint16_t> sums_buffer;
    int64_t blocks;
    /** [tile column][block][tile][four values][row][value] */
    int8_t * quants;
    /** [tile column][block][row] */
    float * scales;
    /**
     * bf16 sums of sub-blocks, which the weights' mins multiply: first the multiples of 32, then the rests.
     * [tile column][block][part][pair of sub-blocks][row][sub-block]
     */
    uint16_t * sums;

    template <typename Of> void pack(const block_q8_K * const * rows, int64_t count, int64_t blocks_of_row) {
        blocks = blocks_of_row;
        const int64_t columns = (count + TILE_COLUMNS - 1) / TILE_COLUMNS;
        quants = quants_buffer.reserve(columns * TILE_COLUMNS * blocks * QK_K);
        scales = scales_buffer.reserve(columns * TILE_COLUMNS * blocks);
        sums = sums_buffer.reserve(Of::HAS_MIN ? (columns * blocks + 1) * BLOCK_SUMS : 0);
        // The zeros in `mins` multiply what follows the last block's sums: it must not be a NaN.
        if constexpr (Of::HAS_MIN) std::fill_n(sums + columns * blocks * BLOCK_SUMS, BLOCK_SUMS, (uint16_t) 0);
        for (int64_t column = 0; column < columns; column++) {
            const block_q8_K * of_column[TILE_COLUMNS];
            // The last row is repeated in the remaining lanes.
            for (int i = 0; i < TILE_COLUMNS; i++) of_column[i] = rows[std::min(column * TILE_COLUMNS + i, count - 1)];
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t at = column * blocks + b;
                for (int group = 0; group < Of::GROUPS; group++) {
                    __m256i lanes[TILE_COLUMNS];
                    for (int i = 0; i < TILE_COLUMNS; i++) {
                        lanes[i] = _mm256_loadu_si256((const __m256i *) (of_column[i][b].qs + group * GROUP));
                    }
                    transpose(lanes, (__m512i *) (quants + (at * Of::GROUPS + group) * GROUP * TILE_COLUMNS));
                }
                for (int i = 0; i < TILE_COLUMNS; i++) {
                    scales[at * TILE_COLUMNS + i] = of_column[i][b].d;
                    if constexpr (Of::HAS_MIN) pack_sums(of_column[i][b], sums + at * BLOCK_SUMS + 2 * i);
                }
            }
        }
    }

  private:
    /** Splits a 13-bit sum into a multiple of 32 and a rest below 32: bf16 represents both exactly. */
    static void pack_sums(const block_q8_K & block, uint16_t * to) {
        const __m256i sums = _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *) block.bsums), _mm256_set1_epi16(1));
        const __m256i lower = _mm256_and_si256(sums, _mm256_set1_epi32(31));
        const __m256i parts[2] = {_mm256_sub_epi32(sums, lower), lower};
        for (int part = 0; part < 2; part++) {
            alignas(16) uint32_t pairs[MINS / 2];
            _mm_store_si128((__m128i *) pairs, exact_bf16(_mm256_cvtepi32_ps(parts[part])));
            for (int pair = 0; pair < MINS / 2; pair++) {
                std::memcpy(to + (part * MINS / 2 + pair) * TILE_COLUMNS * 2, pairs + pair, sizeof(*pairs));
            }
        }
    }
};

/** C tiles of a block of a panel and a tile column: [row of weights][row of the batch]. */
struct alignas(CACHE_LINE) TileSums {
    int32_t lower[TILE_ELEMENTS];
    int32_t upper[TILE_ELEMENTS];
    float mins[TILE_ELEMENTS];
};

template <int PANELS, int TILE = 0> inline void multiply_block_tiles(const PanelBlock * panels, const int8_t * quants) {
    load_tile<VALUE_TILE>(quants + TILE * TILE_BYTES);
    load_tile<WEIGHT_TILE>(panels[0].lower[TILE]);
    dpbusd<SUM_TILE, WEIGHT_TILE, VALUE_TILE>();
    load_tile<WEIGHT_TILE + 1>(panels[0].upper[TILE]);
    dpbssd<SUM_TILE + 1, WEIGHT_TILE + 1, VALUE_TILE>();
    if constexpr (PANELS > 1) {
        load_tile<WEIGHT_TILE>(panels[1].lower[TILE]);
        dpbusd<SUM_TILE + 2, WEIGHT_TILE, VALUE_TILE>();
        load_tile<WEIGHT_TILE + 1>(panels[1].upper[TILE]);
        dpbssd<SUM_TILE + 3, WEIGHT_TILE + 1, VALUE_TILE>();
    }
    if constexpr (TILE + 1 < BLOCK_TILES) multiply_block_tiles<PANELS, TILE + 1>(panels, quants);
}

/** Dot products of a block of PANELS panels and a tile column. @param at index of the column's block. */
template <typename Of, int PANELS>
inline void dot_block(const PanelBlock * panels, const ActivationTiles & batch, int64_t at, TileSums * out) {
    zero_tile<SUM_TILE>();
    zero_tile<SUM_TILE + 1>();
    if constexpr (PANELS > 1) {
        zero_tile<SUM_TILE + 2>();
        zero_tile<SUM_TILE + 3>();
    }
    multiply_block_tiles<PANELS>(panels, batch.quants + at * BLOCK_TILES * TILE_BYTES);
    store_tile<SUM_TILE>(out[0].lower);
    store_tile<SUM_TILE + 1>(out[0].upper);
    if constexpr (PANELS > 1) {
        store_tile<SUM_TILE + 2>(out[1].lower);
        store_tile<SUM_TILE + 3>(out[1].upper);
    }
    if constexpr (Of::HAS_MIN) {
        load_tile<VALUE_TILE + 1>(batch.sums + at * ActivationTiles::BLOCK_SUMS);
        zero_tile<SUM_TILE>();
        load_tile<WEIGHT_TILE>(panels[0].mins);
        dpbf16ps<SUM_TILE, WEIGHT_TILE, VALUE_TILE + 1>();
        store_tile<SUM_TILE>(out[0].mins);
        if constexpr (PANELS > 1) {
            zero_tile<SUM_TILE + 2>();
            load_tile<WEIGHT_TILE + 1>(panels[1].mins);
            dpbf16ps<SUM_TILE + 2, WEIGHT_TILE + 1, VALUE_TILE + 1>();
            store_tile<SUM_TILE + 2>(out[1].mins);
        }
    }
}

/**
 * Scales the dot products of a block and adds them to the results, in the order of the vector micro-kernels: both give the same
 * bits.
 * @param results [row of weights][row of the batch]
 */
template <typename Of>
inline void accumulate_block(const PanelBlock & panel, const TileSums & sums, __m512 block_scales, float * results) {
#pragma GCC unroll 4
    for (int lane = 0; lane < MR; lane++) {
        const int at = lane * TILE_COLUMNS;
        const __m512i upper = _mm512_slli_epi32(_mm512_load_si512(sums.upper + at), 8);
        const __m512i whole = _mm512_add_epi32(upper, _mm512_load_si512(sums.lower + at));
        const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(panel.scales[lane]), block_scales);
        __m512 result = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(whole), _mm512_load_ps(results + at));
        if constexpr (Of::HAS_MIN) {
            const __m512 min = _mm512_mul_ps(_mm512_set1_ps(panel.min_scales[lane]), block_scales);
            result = _mm512_fnmadd_ps(min, _mm512_load_ps(sums.mins + at), result);
        }
        _mm512_store_ps(results + at, result);
    }
}

/** Stores the results of a panel and a tile column. @param rows of the batch. @param count rows of weights. */
inline void store_totals(const float * results, int64_t rows, float * const * out, int64_t at, int64_t count) {
    const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
    for (int half = 0; half < 2; half++) {
        __m256i lines[MR];
        __m512i of_rows[TILE_COLUMNS / 2];
        for (int lane = 0; lane < MR; lane++) {
            lines[lane] = _mm256_load_si256((const __m256i *) (results + lane * TILE_COLUMNS + half * 8));
        }
        transpose(lines, of_rows);
        for (int64_t row = half * 8; row < std::min<int64_t>(rows, half * 8 + 8); row++) {
            _mm512_mask_storeu_ps(out[row] + at, lanes, _mm512_castsi512_ps(of_rows[row - half * 8]));
        }
    }
}

/**
 * PANELS panels times all rows of the batch.
 * @param count rows of weights. @param n rows of the batch. @param out results of each, of which `at` is the first row of weights.
 */
template <typename Block, int PANELS>
inline void gemm_panels_amx(const Block * weights, int64_t stride, int64_t count, const ActivationTiles & batch, int64_t n,
                            float * const * out, int64_t at) {
    using Of = QuantTraits<Block>;
    static thread_local PanelBlock panels[PANELS];
    static thread_local TileSums sums[2][PANELS];
    static thread_local AlignedBuffer<float> totals_buffer;
    const int64_t columns = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    float * results = totals_buffer.reserve(columns * PANELS * TILE_ELEMENTS);
    std::fill_n(results, columns * PANELS * TILE_ELEMENTS, 0.0f);
    for (int64_t b = 0; b < batch.blocks; b++) {
        for (int p = 0; p < PANELS; p++) panels[p].pack(weights + p * MR * stride + b, stride, count - p * MR);
        const auto add = [&](int64_t column) {
            const __m512 block_scales = _mm512_load_ps(batch.scales + (column * batch.blocks + b) * TILE_COLUMNS);
            for (int p = 0; p < PANELS; p++) {
                accumulate_block<Of>(panels[p], sums[column % 2][p], block_scales,
                                     results + (column * PANELS + p) * TILE_ELEMENTS);
            }
        };
        // The tile unit works on the next column while vectors scale a column's sums.
        dot_block<Of, PANELS>(panels, batch, b, sums[0]);
        for (int64_t column = 1; column < columns; column++) {
            dot_block<Of, PANELS>(panels, batch, column * batch.blocks + b, sums[column % 2]);
            add(column - 1);
        }
        add(columns - 1);
    }
    for (int64_t column = 0; column < columns; column++) {
        for (int p = 0; p < PANELS; p++) {
            store_totals(results + (column * PANELS + p) * TILE_ELEMENTS, n - column * TILE_COLUMNS,
                         out + column * TILE_COLUMNS, at + p * MR, std::min<int64_t>(MR, count - p * MR));
        }
    }
}

}  // namespace

#endif
