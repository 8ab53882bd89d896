// Larger batches on AMX tiles, for weights whose blocks have several scales: Q4_K, Q5_K and Q6_K. See product.cpp.
//
// A weight times its scale is a whole number of up to 14 bits. Its lower and its upper byte each go into a tile, so that only
// a block's own scale is left for the tiles' sums. Sums that are scaled for each 32 or 16 weights, as in ggml, fill a tile to
// a half or a quarter, and scaling them takes longer than multiplying. For weights with a scale of f16 for each 32, tiles are
// therefore no faster than vectors.
//
// A tile of weights is sixteen rows as they are. One of the batch holds four neighbouring values of each of sixteen rows in a
// line. Their product is a tile of sums: a line for each row of weights, in which each lane is a row of the batch.
#pragma once

#include "tiles.h"

#if defined(LOOKOUT_TILES)

namespace {

/** Rows of the batch in a tile. */
constexpr int COLUMNS = 16;
/** Sums in a tile: those of a panel and a column. */
constexpr int TILE_SUMS = LANES * COLUMNS;
/** Tiles in which the lower or upper bytes of a panel's block are. */
constexpr int BLOCK_TILES = QK_K / LINE;
/** Panels that are multiplied with a column's values while these are in a tile. */
constexpr int TILE_PANELS = 2;
/** Units of a block that have minima. */
constexpr int MINIMA = QK_K / GROUP;
/** Tiles' numbers. */
constexpr int SUMS = 0, WEIGHTS = 4, VALUES = 6;

/** Numbers that bf16 represents exactly. */
inline __m128i exact_bf16(__m256 numbers) {
    return _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm256_castps_si256(numbers), 16));
}

/** One block of a panel. */
struct alignas(LINE) PanelBlock {
    /** Lower and upper bytes of weights times scales: [tile][row][weight]. */
    uint8_t lower[BLOCK_TILES][LANES][LINE];
    int8_t upper[BLOCK_TILES][LANES][LINE];
    /** The minima twice as numbers of bf16, and zeros: [row][number]. */
    uint16_t minima[LANES][LINE / sizeof(uint16_t)];
    float scales[LANES];
    float minimum_scales[LANES];

    /**
     * @param weights the block of the first row; `stride` blocks lie from row to row.
     * @param count rows that there are, from 1 to LANES; the last one fills the others.
     */
    template <typename Block> void read(const Block * weights, int64_t stride, int64_t count) {
        using Of = Type<Block>;
        for (int lane = 0; lane < LANES; lane++) {
            const Block & block = weights[std::min<int64_t>(lane, count - 1) * stride];
            // The same part of a panel that follows.
            const char * next = (const char *) (&block + TILE_PANELS * LANES * stride);
            for (int64_t at = 0; at < (int64_t) sizeof(Block); at += LINE) _mm_prefetch(next + at, _MM_HINT_T1);
            scales[lane] = single(block.d);
            const __m512i all_scales = _mm512_castsi256_si512(_mm256_cvtepi8_epi16(Of::whole_scales(block)));
#pragma GCC unroll 4
            for (int tile = 0; tile < BLOCK_TILES; tile++) {
                const __m512i bytes = _mm512_inserti64x4(
                    _mm512_castsi256_si512(Of::bytes(block, 2 * tile)), Of::bytes(block, 2 * tile + 1), 1);
                const __m512i scale = _mm512_permutexvar_epi16(scale_places<Of>(tile), all_scales);
                __m512i even = _mm512_mullo_epi16(_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), scale);
                __m512i odd = _mm512_mullo_epi16(_mm512_srli_epi16(bytes, 8), scale);
                if constexpr (Of::ZERO != 0) {
                    const __m512i zero = _mm512_mullo_epi16(scale, _mm512_set1_epi16(Of::ZERO));
                    even = _mm512_sub_epi16(even, zero);
                    odd = _mm512_sub_epi16(odd, zero);
                }
                // Bits of the third where those of the first are set, else of the second.
                constexpr int CHOOSE = 0xac;
                const __m512i low = _mm512_set1_epi16(0xff);
                _mm512_store_si512(lower[tile][lane], _mm512_ternarylogic_epi32(low, _mm512_slli_epi16(odd, 8), even, CHOOSE));
                _mm512_store_si512(upper[tile][lane], _mm512_ternarylogic_epi32(low, odd, _mm512_srli_epi16(even, 8), CHOOSE));
            }
            if constexpr (Of::HAS_MINIMUM) {
                minimum_scales[lane] = single(block.dmin);
                const __m256i twice = _mm256_broadcastsi128_si256(exact_bf16(floats(Of::packed_minima(block))));
                _mm512_store_si512(minima[lane], _mm512_zextsi256_si512(twice));
            }
        }
    }
};

/** A batch's rows, in columns of tiles. */
struct Columns {
    /** Numbers of bf16 of a column's block in `sums`. A tile reads as many again: what zeros are multiplied with. */
    static constexpr int BLOCK_SUMS = 2 * MINIMA * COLUMNS;

    Buffer<int8_t> values_memory;
    Buffer<float> scales_memory;
    Buffer<uint16_t> sums_memory;
    int64_t blocks;
    /** [column][block][tile][four values][row][value] */
    int8_t * values;
    /** [column][block][row] */
    float * scales;
    /**
     * Sums of the units' values, which the weights' minima are multiplied with, as numbers of bf16: first their upper
     * parts, then their lower ones. [column][block][part][two units][row][unit]
     */
    uint16_t * sums;

    template <typename Of> void read(const block_q8_K * rows, int64_t stride, int64_t count, int64_t blocks_of_row) {
        blocks = blocks_of_row;
        const int64_t columns = (count + COLUMNS - 1) / COLUMNS;
        values = values_memory.of(columns * COLUMNS * blocks * QK_K);
        scales = scales_memory.of(columns * COLUMNS * blocks);
        sums = sums_memory.of(Of::HAS_MINIMUM ? (columns * blocks + 1) * BLOCK_SUMS : 0);
        for (int64_t column = 0; column < columns; column++) {
            const block_q8_K * of_column[COLUMNS];
            // Where there are no more rows, the last one is computed again.
            for (int i = 0; i < COLUMNS; i++) of_column[i] = rows + std::min(column * COLUMNS + i, count - 1) * stride;
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t at = column * blocks + b;
                for (int group = 0; group < Of::GROUPS; group++) {
                    __m256i lanes[COLUMNS];
                    for (int i = 0; i < COLUMNS; i++) {
                        lanes[i] = _mm256_loadu_si256((const __m256i *) (of_column[i][b].qs + group * GROUP));
                    }
                    transpose(lanes, (__m512i *) (values + (at * Of::GROUPS + group) * GROUP * COLUMNS));
                }
                for (int i = 0; i < COLUMNS; i++) {
                    scales[at * COLUMNS + i] = of_column[i][b].d;
                    if constexpr (Of::HAS_MINIMUM) read_sums(of_column[i][b], sums + at * BLOCK_SUMS + 2 * i);
                }
            }
        }
    }

  private:
    /** A sum has 13 bits. Its upper part is a multiple of 32, its lower one less, so that bf16 represents both. */
    static void read_sums(const block_q8_K & block, uint16_t * to) {
        const __m256i sums = _mm256_madd_epi16(_mm256_loadu_si256((const __m256i *) block.bsums), _mm256_set1_epi16(1));
        const __m256i lower = _mm256_and_si256(sums, _mm256_set1_epi32(31));
        const __m256i parts[2] = {_mm256_sub_epi32(sums, lower), lower};
        for (int part = 0; part < 2; part++) {
            alignas(16) uint32_t pairs[MINIMA / 2];
            _mm_store_si128((__m128i *) pairs, exact_bf16(_mm256_cvtepi32_ps(parts[part])));
            for (int pair = 0; pair < MINIMA / 2; pair++) {
                std::memcpy(to + (part * MINIMA / 2 + pair) * COLUMNS * 2, pairs + pair, sizeof(*pairs));
            }
        }
    }
};

/** What tiles have computed for a block of a panel and a column: [row of weights][row of the batch]. */
struct alignas(LINE) BlockSums {
    int32_t lower[TILE_SUMS];
    int32_t upper[TILE_SUMS];
    float minima[TILE_SUMS];
};

template <int SOME, int TILE = 0> inline void multiply_block_tiles(const PanelBlock * panels, const int8_t * values) {
    load_tile<VALUES>(values + TILE * TILE_BYTES);
    load_tile<WEIGHTS>(panels[0].lower[TILE]);
    multiply_unsigned<SUMS, WEIGHTS, VALUES>();
    load_tile<WEIGHTS + 1>(panels[0].upper[TILE]);
    multiply_signed<SUMS + 1, WEIGHTS + 1, VALUES>();
    if constexpr (SOME > 1) {
        load_tile<WEIGHTS>(panels[1].lower[TILE]);
        multiply_unsigned<SUMS + 2, WEIGHTS, VALUES>();
        load_tile<WEIGHTS + 1>(panels[1].upper[TILE]);
        multiply_signed<SUMS + 3, WEIGHTS + 1, VALUES>();
    }
    if constexpr (TILE + 1 < BLOCK_TILES) multiply_block_tiles<SOME, TILE + 1>(panels, values);
}

/** The sums of a block of some panels and a column. @param at place of the column's block. */
template <typename Of, int SOME>
inline void sum_block(const PanelBlock * panels, const Columns & batch, int64_t at, BlockSums * out) {
    zero_tile<SUMS>();
    zero_tile<SUMS + 1>();
    if constexpr (SOME > 1) {
        zero_tile<SUMS + 2>();
        zero_tile<SUMS + 3>();
    }
    multiply_block_tiles<SOME>(panels, batch.values + at * BLOCK_TILES * TILE_BYTES);
    store_tile<SUMS>(out[0].lower);
    store_tile<SUMS + 1>(out[0].upper);
    if constexpr (SOME > 1) {
        store_tile<SUMS + 2>(out[1].lower);
        store_tile<SUMS + 3>(out[1].upper);
    }
    if constexpr (Of::HAS_MINIMUM) {
        load_tile<VALUES + 1>(batch.sums + at * Columns::BLOCK_SUMS);
        zero_tile<SUMS>();
        load_tile<WEIGHTS>(panels[0].minima);
        multiply_bf16<SUMS, WEIGHTS, VALUES + 1>();
        store_tile<SUMS>(out[0].minima);
        if constexpr (SOME > 1) {
            zero_tile<SUMS + 2>();
            load_tile<WEIGHTS + 1>(panels[1].minima);
            multiply_bf16<SUMS + 2, WEIGHTS + 1, VALUES + 1>();
            store_tile<SUMS + 2>(out[1].minima);
        }
    }
}

/**
 * Adds a block's sums to those of a panel and a column, in the order of products on vectors, so that the result does not
 * depend on who computes it.
 * @param totals [row of weights][row of the batch]
 */
template <typename Of>
inline void add_block(const PanelBlock & panel, const BlockSums & sums, __m512 row_scales, float * totals) {
#pragma GCC unroll 4
    for (int lane = 0; lane < LANES; lane++) {
        const int at = lane * COLUMNS;
        const __m512i upper = _mm512_slli_epi32(_mm512_load_si512(sums.upper + at), 8);
        const __m512i whole = _mm512_add_epi32(upper, _mm512_load_si512(sums.lower + at));
        const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(panel.scales[lane]), row_scales);
        __m512 total = _mm512_fmadd_ps(scale, _mm512_cvtepi32_ps(whole), _mm512_load_ps(totals + at));
        if constexpr (Of::HAS_MINIMUM) {
            const __m512 minimum = _mm512_mul_ps(_mm512_set1_ps(panel.minimum_scales[lane]), row_scales);
            total = _mm512_fnmadd_ps(minimum, _mm512_load_ps(sums.minima + at), total);
        }
        _mm512_store_ps(totals + at, total);
    }
}

/** Stores a panel's and a column's products. @param rows of the batch that there are. @param count rows of weights. */
inline void store_totals(const float * totals, int64_t rows, float * out, int64_t stride, int64_t count) {
    const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
    for (int half = 0; half < 2; half++) {
        __m256i lines[LANES];
        __m512i of_rows[COLUMNS / 2];
        for (int lane = 0; lane < LANES; lane++) {
            lines[lane] = _mm256_load_si256((const __m256i *) (totals + lane * COLUMNS + half * 8));
        }
        transpose(lines, of_rows);
        for (int64_t row = half * 8; row < std::min<int64_t>(rows, half * 8 + 8); row++) {
            _mm512_mask_storeu_ps(out + row * stride, lanes, _mm512_castsi512_ps(of_rows[row - half * 8]));
        }
    }
}

/** The products of some panels and all rows of the batch. @param count rows of weights. @param n rows of the batch. */
template <typename Block, int SOME>
inline void multiply_panels(const Block * weights, int64_t stride, int64_t count, const Columns & batch, int64_t n, float * out,
                            int64_t out_stride) {
    using Of = Type<Block>;
    static thread_local PanelBlock panels[SOME];
    static thread_local BlockSums sums[2][SOME];
    static thread_local Buffer<float> totals_memory;
    const int64_t columns = (n + COLUMNS - 1) / COLUMNS;
    float * totals = totals_memory.of(columns * SOME * TILE_SUMS);
    std::fill_n(totals, columns * SOME * TILE_SUMS, 0.0f);
    for (int64_t b = 0; b < batch.blocks; b++) {
        for (int p = 0; p < SOME; p++) panels[p].read(weights + p * LANES * stride + b, stride, count - p * LANES);
        const auto add = [&](int64_t column) {
            const __m512 row_scales = _mm512_load_ps(batch.scales + (column * batch.blocks + b) * COLUMNS);
            for (int p = 0; p < SOME; p++) {
                add_block<Of>(panels[p], sums[column % 2][p], row_scales, totals + (column * SOME + p) * TILE_SUMS);
            }
        };
        // The tiles are busy with the next column while a column's sums are scaled.
        sum_block<Of, SOME>(panels, batch, b, sums[0]);
        for (int64_t column = 1; column < columns; column++) {
            sum_block<Of, SOME>(panels, batch, column * batch.blocks + b, sums[column % 2]);
            add(column - 1);
        }
        add(columns - 1);
    }
    for (int64_t column = 0; column < columns; column++) {
        for (int p = 0; p < SOME; p++) {
            store_totals(totals + (column * SOME + p) * TILE_SUMS, n - column * COLUMNS,
                         out + column * COLUMNS * out_stride + p * LANES, out_stride,
                         std::min<int64_t>(LANES, count - p * LANES));
        }
    }
}

}  // namespace

#endif
