// Products on AMX tiles, for processors that have them. See product.cpp.
//
// A tile of weights is sixteen rows as they are, so a panel need not be transposed. The batch is, once: a tile of it holds
// four neighbouring values of each of sixteen rows in a line. Their product is a tile of sums: a line for each row of
// weights, in which each lane is a row of the batch.
#pragma once

#include "product-wide.h"

#if defined(__AMX_INT8__) && defined(__linux__)

#include <sys/syscall.h>
#include <unistd.h>

namespace {

/** Rows of the batch in a tile. */
constexpr int COLUMNS = 16;

/** What `ldtilecfg` reads. */
struct alignas(LINE) TileShapes {
    uint8_t palette = 0;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t line_bytes[16] = {};
    uint8_t lines[16] = {};
};

/** Tiles' numbers. There are several of each kind, so that some are filled while others are multiplied. */
constexpr int SUMS = 0, WEIGHTS = 4, VALUES = 6;

// GCC's own functions (as of GCC 12) do not tell the compiler all of the memory that they read and write.
inline void load_shapes(const TileShapes & shapes) { __asm__ volatile("ldtilecfg %0" ::"m"(shapes)); }
inline void store_shapes(TileShapes & shapes) { __asm__ volatile("sttilecfg %0" : "=m"(shapes)); }
inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }
template <int TILE> inline void zero_tile() { __asm__ volatile("tilezero %%tmm%c0" ::"i"(TILE)); }
template <int TILE> inline void load_tile(const void * from, int64_t stride) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(TILE), "r"(from), "r"(stride) : "memory");
}
template <int TILE> inline void store_tile(void * to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(TILE), "r"(to), "r"(stride) : "memory");
}
template <int TO, int A, int B> inline void multiply_tiles() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}

/** Whether the system lets this process use tiles. */
inline bool has_tiles() {
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    static const bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return granted;
}

/** Sets the tiles' shapes, and leaves them as ggml's own code has set them. */
class TileSetting {
    TileShapes before;

  public:
    TileSetting() {
        store_shapes(before);
        TileShapes shapes;
        shapes.palette = 1;
        for (int i = 0; i < 4; i++) {
            shapes.lines[SUMS + i] = LANES;
            shapes.line_bytes[SUMS + i] = COLUMNS * sizeof(int32_t);
        }
        for (int i = 0; i < 2; i++) {
            shapes.lines[WEIGHTS + i] = LANES;
            shapes.line_bytes[WEIGHTS + i] = GROUP;
            shapes.lines[VALUES + i] = GROUP / 4;
            shapes.line_bytes[VALUES + i] = COLUMNS * 4;
        }
        load_shapes(shapes);
    }

    ~TileSetting() {
        if (before.palette == 0) release_tiles();
        else load_shapes(before);
    }
};

/** A batch's rows, in columns of tiles. */
struct Columns {
    Buffer<int8_t> values_memory;
    Buffer<float> scales_memory, sums_memory;
    /** [COLUMNS rows][four values][row][value] */
    int8_t * values;
    /** [COLUMNS rows][block][row] */
    float * scales;
    /** Scaled sums of a unit's values, which the weights' minima are multiplied with: [COLUMNS rows][unit][row]. */
    float * sums;

    template <typename Of> void read(const typename Of::Row * rows, int64_t stride, int64_t count, int64_t blocks) {
        const int64_t columns = (count + COLUMNS - 1) / COLUMNS;
        values = values_memory.of(columns * COLUMNS * blocks * Of::GROUPS * GROUP);
        scales = scales_memory.of(columns * COLUMNS * blocks);
        if constexpr (Of::HAS_MINIMUM) sums = sums_memory.of(columns * COLUMNS * blocks * Of::GROUPS);
        for (int64_t column = 0; column < columns; column++) {
            const typename Of::Row * of_column[COLUMNS];
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
                for (int i = 0; i < COLUMNS; i++) scales[at * COLUMNS + i] = Batch<TOGETHER>::scale_of(of_column[i][b]);
                if constexpr (Of::HAS_MINIMUM) {
                    for (int unit = 0; unit < Of::GROUPS; unit++) {
                        for (int i = 0; i < COLUMNS; i++) {
                            const auto & block = of_column[i][b];
                            sums[(at * Of::GROUPS + unit) * COLUMNS + i] =
                                Batch<TOGETHER>::scale_of(block) * Batch<TOGETHER>::template sum_of<Of>(block, unit);
                        }
                    }
                }
            }
        }
    }
};

/** Units whose tiles are multiplied while the sums of as many before them are scaled. */
constexpr int UNITS_AHEAD = 4;

/** The sums of a panel's and a column's values in `UNITS_AHEAD` units from `u` on, or as many as there are. */
template <int NUMBER = 0>
inline void sum_units(const uint8_t * weights, const int8_t * values, int64_t u, int64_t units, int32_t (*out)[LANES * COLUMNS]) {
    constexpr int PARITY = NUMBER % 2;
    if (u + NUMBER >= units) return;
    load_tile<WEIGHTS + PARITY>(weights + (u + NUMBER) * GROUP * LANES, GROUP);
    load_tile<VALUES + PARITY>(values + (u + NUMBER) * GROUP * COLUMNS, COLUMNS * 4);
    zero_tile<SUMS + NUMBER>();
    multiply_tiles<SUMS + NUMBER, WEIGHTS + PARITY, VALUES + PARITY>();
    store_tile<SUMS + NUMBER>(out[NUMBER], COLUMNS * sizeof(int32_t));
    if constexpr (NUMBER + 1 < UNITS_AHEAD) sum_units<NUMBER + 1>(weights, values, u, units, out);
}

/** The products of a panel and the rows of one column. @param rows_left of the batch. @param count rows of weights. */
template <typename Of>
void multiply(const Panel & panel, const Columns & batch, int64_t column, int64_t blocks, int64_t rows_left, float * out,
              int64_t stride, int64_t count) {
    constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
    const int64_t units = blocks * UNITS;
    const int8_t * values = batch.values + column * blocks * Of::GROUPS * GROUP * COLUMNS;
    const float * row_scales = batch.scales + column * blocks * COLUMNS;
    alignas(LINE) int32_t buffers[2][UNITS_AHEAD][LANES * COLUMNS];
    __m512 totals[LANES];
    for (int lane = 0; lane < LANES; lane++) totals[lane] = _mm512_setzero_ps();
    const auto add = [&](int64_t u, const int32_t * sums) {
        const float * scales = panel.scales + u * LANES;
        const __m512 of_rows = _mm512_load_ps(row_scales + u / UNITS * COLUMNS);
#pragma GCC unroll 16
        for (int lane = 0; lane < LANES; lane++) {
            // In the order of products on vectors, so that the result does not depend on who computes it.
            const __m512 both = _mm512_mul_ps(_mm512_set1_ps(scales[lane]), of_rows);
            const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(sums + lane * COLUMNS));
            totals[lane] = _mm512_fmadd_ps(both, sum, totals[lane]);
        }
        if constexpr (Of::HAS_MINIMUM) {
            const float * minima = panel.minima + u * LANES;
            const __m512 of_units = _mm512_load_ps(batch.sums + (column * units + u) * COLUMNS);
#pragma GCC unroll 16
            for (int lane = 0; lane < LANES; lane++) {
                totals[lane] = _mm512_fnmadd_ps(of_units, _mm512_set1_ps(minima[lane]), totals[lane]);
            }
        }
    };
    sum_units(panel.bytes, values, 0, units, buffers[0]);
    for (int64_t u = 0; u < units; u += UNITS_AHEAD) {
        const int now = u / UNITS_AHEAD % 2;
        sum_units(panel.bytes, values, u + UNITS_AHEAD, units, buffers[1 - now]);
        for (int i = 0; i < UNITS_AHEAD && u + i < units; i++) add(u + i, buffers[now][i]);
    }
    const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
    for (int half = 0; half < 2; half++) {
        __m256i lines[LANES];
        __m512i rows[COLUMNS / 2];
        for (int lane = 0; lane < LANES; lane++) {
            lines[lane] = half == 0 ? _mm256_castps_si256(_mm512_castps512_ps256(totals[lane]))
                                    : _mm256_castps_si256(_mm512_extractf32x8_ps(totals[lane], 1));
        }
        transpose(lines, rows);
        for (int64_t row = half * 8; row < std::min<int64_t>(rows_left, half * 8 + 8); row++) {
            _mm512_mask_storeu_ps(out + row * stride, lanes, _mm512_castsi512_ps(rows[row - half * 8]));
        }
    }
}

}  // namespace

#endif
