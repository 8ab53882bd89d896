// Products of quantised weights and a batch of rows, for x86 with AVX-512 VNNI. They replace those of ggml's sgemm.cpp
// for Q8_0, Q5_0, Q4_0, Q6_K, Q5_K and Q4_K.
//
// ggml's code reads the weights again for each few rows of a batch, sums across vectors for every block, and is at its
// slowest where the number of rows is no multiple of its tiles: 15 next tokens took longer than 16.
//
// Here, sixteen rows of weights at a time become a panel: unsigned bytes in which a vector holds four neighbouring
// weights of each of the sixteen. A vector instruction then multiplies four weights with four values of a batch row in
// all sixteen lanes, without sums across lanes. Weights are read and unpacked once for all rows of a batch. A row's
// result does not depend on the other rows of the batch.
//
// ggml's own code handles everything else. This file is compiled in place of ggml's sgemm.cpp, which it includes with
// the replaced function renamed.

#define llamafile_sgemm ggml_stock_sgemm
#include "llamafile/sgemm.cpp"
#undef llamafile_sgemm

extern "C" bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A,
                                int64_t lda, const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype,
                                int Ctype);
extern "C" bool lookout_multiply_halves(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                        const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                        int64_t rows_stride, float * out, int64_t out_stride);

/** Products of weights of f16 (halves.cpp), else ggml's. */
static bool other_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                        const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    const bool is_ours = Atype == GGML_TYPE_F16 && Btype == GGML_TYPE_F16 && Ctype == GGML_TYPE_F32;
    if (is_ours && lookout_multiply_halves(params, m, n, k, (const ggml_fp16_t *) A, lda, (const ggml_fp16_t *) B, ldb,
                                           (float *) C, ldc)) {
        return true;
    }
    return ggml_stock_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include <algorithm>
#include <cstring>
#include <vector>

extern "C" void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
extern "C" int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);

namespace {

/** Rows of weights in a panel: lanes of a vector. */
constexpr int LANES = 16;
/** Weights and values are read in groups of so many: eight vectors of a panel, of which a lane holds four weights. */
constexpr int GROUP = 32;
/** Bytes of a vector, and of a line of the processor's caches. */
constexpr int LINE = 64;
/** Rows of the batch that are computed together; their sums stay in registers. */
constexpr int TOGETHER = 8;
/** Panels that a thread takes at a time, at most. */
constexpr int64_t MOST_PANELS = 16;
/** Parts that a thread should have of each product, so that one that has lost its core holds up the others less. */
constexpr int64_t PARTS = 4;

/** The first half of the weights are the lower halves of the bytes. */
inline __m256i nibbles(const uint8_t * packed) {
    const __m128i both = _mm_loadu_si128((const __m128i *) packed);
    const __m256i wide = _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
    return _mm256_and_si256(wide, _mm256_set1_epi8(0x0f));
}

/** Thirty-two bytes' lower or upper halves. */
inline __m256i halves(const uint8_t * packed, bool upper) {
    const __m256i both = _mm256_loadu_si256((const __m256i *) packed);
    return _mm256_and_si256(upper ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(0x0f));
}

/** Of eight unsigned bytes. */
inline __m256 floats(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t) bytes)));
}

/**
 * How blocks of a type are unpacked. A weight is (byte - ZERO) * scale - minimum; UNIT neighbours share scale and minimum.
 * `Row` is the type of the batch's rows.
 */
template <typename Block> struct Type;

/** Types whose blocks are one group with one scale. */
template <typename Block> struct OneScale {
    using Row = block_q8_0;
    static constexpr int GROUPS = 1;
    static constexpr int UNIT = GROUP;
    static constexpr bool HAS_MINIMUM = false;
};

template <> struct Type<block_q8_0> : OneScale<block_q8_0> {
    static constexpr int ZERO = 128;
    static __m256i bytes(const block_q8_0 & block, int) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) block.qs), _mm256_set1_epi8((char) 0x80));
    }
};

template <> struct Type<block_q4_0> : OneScale<block_q4_0> {
    static constexpr int ZERO = 8;
    static __m256i bytes(const block_q4_0 & block, int) { return nibbles(block.qs); }
};

template <> struct Type<block_q5_0> : OneScale<block_q5_0> {
    static constexpr int ZERO = 16;
    static __m256i bytes(const block_q5_0 & block, int) {
        uint32_t high;
        std::memcpy(&high, block.qh, sizeof(high));
        const __m256i low = nibbles(block.qs);
        return _mm256_mask_add_epi8(low, high, low, _mm256_set1_epi8(16));
    }
};

/** Q4_K and Q5_K: eight groups, with scales and minima of six bits. */
template <typename Block> struct Minima {
    using Row = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int UNIT = GROUP;
    static constexpr bool HAS_MINIMUM = true;
    static constexpr int ZERO = 0;

    static void scales(const Block & block, __m256 * scales, __m256 * minima) {
        uint32_t packed[3];
        std::memcpy(packed, block.scales, sizeof(packed));
        const uint32_t small = 0x3f3f3f3f, low = 0x0f0f0f0f, high = 0x03030303;
        // The last four of each have their lower four bits in the third word, and their upper two in the others.
        const uint64_t last_scales = (packed[2] & low) | (((packed[0] >> 6) & high) << 4);
        const uint64_t last_minima = ((packed[2] >> 4) & low) | (((packed[1] >> 6) & high) << 4);
        const __m256 d = _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(block.d));
        const __m256 dmin = _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(block.dmin));
        *scales = _mm256_mul_ps(floats(last_scales << 32 | (packed[0] & small)), d);
        *minima = _mm256_mul_ps(floats(last_minima << 32 | (packed[1] & small)), dmin);
    }
};

template <> struct Type<block_q4_K> : Minima<block_q4_K> {
    static __m256i bytes(const block_q4_K & block, int group) {
        return halves(block.qs + group / 2 * GROUP, group % 2 == 1);
    }
};

template <> struct Type<block_q5_K> : Minima<block_q5_K> {
    static __m256i bytes(const block_q5_K & block, int group) {
        const __m256i low = halves(block.qs + group / 2 * GROUP, group % 2 == 1);
        const __m256i bits = _mm256_loadu_si256((const __m256i *) block.qh);
        const __mmask32 high = _mm256_test_epi8_mask(bits, _mm256_set1_epi8((char) (1 << group)));
        return _mm256_mask_add_epi8(low, high, low, _mm256_set1_epi8(16));
    }
};

/** Sixteen scales of eight bits. */
template <> struct Type<block_q6_K> {
    using Row = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int UNIT = GROUP / 2;
    static constexpr bool HAS_MINIMUM = false;
    static constexpr int ZERO = 32;

    static __m256i bytes(const block_q6_K & block, int group) {
        const int part = group % 4;
        const uint8_t * packed = block.ql + group / 4 * 2 * GROUP + part % 2 * GROUP;
        const __m256i high = _mm256_loadu_si256((const __m256i *) (block.qh + group / 4 * GROUP));
        const __m256i two = _mm256_and_si256(_mm256_srli_epi16(high, 2 * part), _mm256_set1_epi8(3));
        return _mm256_or_si256(halves(packed, part >= 2), _mm256_slli_epi16(two, 4));
    }

    static void scales(const block_q6_K & block, __m256 * scales, __m256 *) {
        const __m256 d = _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(block.d));
        for (int i = 0; i < 2; i++) {
            const __m128i eight = _mm_loadl_epi64((const __m128i *) (block.scales + 8 * i));
            scales[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), d);
        }
    }
};

/** Turns sixteen rows of eight elements into eight rows of sixteen; an element has four bytes. */
inline void transpose(const __m256i * rows, __m512i * out) {
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    const __m512i upper = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    // Each vector holds a row in its lower half and the row eight below in its upper one.
    __m512i x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = _mm512_inserti64x4(_mm512_castsi256_si512(rows[i]), rows[i + 8], 1);
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        _mm512_store_si512(out + i, _mm512_permutex2var_epi64(x[i], lower, x[i + 4]));
        _mm512_store_si512(out + i + 4, _mm512_permutex2var_epi64(x[i], upper, x[i + 4]));
    }
}

/** Memory that grows, aligned to lines. */
template <typename Item> struct Buffer {
    std::vector<uint8_t> memory;

    Item * of(size_t count) {
        const size_t bytes = count * sizeof(Item) + LINE;
        if (memory.size() < bytes) memory.resize(bytes);
        return (Item *) (((uintptr_t) memory.data() + LINE - 1) / LINE * LINE);
    }
};

/** Sixteen rows of weights: bytes, and for each unit a scale and a minimum for each lane. */
struct Panel {
    Buffer<uint8_t> bytes_memory;
    Buffer<float> scales_memory, minima_memory;
    uint8_t * bytes;
    float * scales;
    float * minima;

    /** @param count rows that there are, from 1 to LANES; the last one fills the others. */
    template <typename Block> void read(const Block * weights, int64_t stride, int64_t count, int64_t blocks) {
        using Of = Type<Block>;
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        bytes = bytes_memory.of(blocks * Of::GROUPS * GROUP * LANES);
        scales = scales_memory.of(blocks * UNITS * LANES);
        minima = minima_memory.of(Of::HAS_MINIMUM ? blocks * UNITS * LANES : 0);
        const Block * rows[LANES];
        for (int lane = 0; lane < LANES; lane++) rows[lane] = weights + std::min<int64_t>(lane, count - 1) * stride;
        // The rows of a panel follow each other in memory, but sixteen short streams are too many for the processor to
        // read ahead. So this asks for the next panel.
        const char * next = (const char *) (weights + LANES * stride);
        __m256i lanes[LANES];
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t first = b * LANES * sizeof(Block);
            for (int64_t at = first; at < first + LANES * (int64_t) sizeof(Block); at += LINE) {
                _mm_prefetch(next + at, _MM_HINT_T1);
            }
#pragma GCC unroll 8
            for (int group = 0; group < Of::GROUPS; group++) {
#pragma GCC unroll 16
                for (int lane = 0; lane < LANES; lane++) lanes[lane] = Of::bytes(rows[lane][b], group);
                transpose(lanes, (__m512i *) (bytes + (b * Of::GROUPS + group) * GROUP * LANES));
            }
            if constexpr (UNITS == 1) {
                alignas(32) ggml_half scale[LANES];
                for (int lane = 0; lane < LANES; lane++) scale[lane] = rows[lane][b].d;
                _mm512_store_ps(scales + b * LANES, _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) scale)));
            } else {
                __m256 scale[LANES][UNITS / 8];
                __m256 minimum[LANES];
                for (int lane = 0; lane < LANES; lane++) Of::scales(rows[lane][b], scale[lane], minimum + lane);
                for (int part = 0; part < UNITS / 8; part++) {
                    for (int lane = 0; lane < LANES; lane++) lanes[lane] = _mm256_castps_si256(scale[lane][part]);
                    transpose(lanes, (__m512i *) (scales + (b * UNITS + 8 * part) * LANES));
                }
                if constexpr (Of::HAS_MINIMUM) transpose((const __m256i *) minimum, (__m512i *) (minima + b * UNITS * LANES));
            }
        }
    }
};

/** A batch's rows: values, and for each unit of TOGETHER rows their scales, zero points and sums. */
struct Batch {
    Buffer<int8_t> values_memory;
    Buffer<float> scales_memory, sums_memory, row_sums_memory, row_scales_memory;
    Buffer<int32_t> zeros_memory;
    /** [row][value] */
    int8_t * values;
    /** [TOGETHER rows][unit][row] */
    float * scales;
    /** What the weights' zero points add to a unit's sum. */
    int32_t * zeros;
    /** Scaled sums of a unit's values, which the weights' minima are multiplied with. */
    float * sums;
    /** The same as [row][unit], and a scale for each block as [row][block]. */
    float * row_sums;
    float * row_scales;

    template <typename Of> void read(const typename Of::Row * rows, int64_t stride, int64_t count, int64_t blocks) {
        constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
        constexpr int WIDTH = Of::GROUPS * GROUP;
        const int64_t size = (count + TOGETHER - 1) / TOGETHER * TOGETHER * blocks * UNITS;
        values = values_memory.of(count * blocks * WIDTH);
        scales = scales_memory.of(size);
        zeros = zeros_memory.of(size);
        sums = sums_memory.of(size);
        row_sums = row_sums_memory.of(count * blocks * UNITS);
        row_scales = row_scales_memory.of(count * blocks);
        for (int64_t row = 0; row < count; row++) {
            const int64_t first = row / TOGETHER * TOGETHER * blocks * UNITS + row % TOGETHER;
            for (int64_t b = 0; b < blocks; b++) {
                const auto & block = rows[row * stride + b];
                std::memcpy(values + (row * blocks + b) * WIDTH, block.qs, WIDTH);
                row_scales[row * blocks + b] = scale_of(block);
                for (int unit = 0; unit < UNITS; unit++) {
                    const int64_t at = first + (b * UNITS + unit) * TOGETHER;
                    const int32_t sum = sum_of<Of>(block, unit);
                    const float scale = scale_of(block);
                    scales[at] = scale;
                    zeros[at] = -Of::ZERO * sum;
                    sums[at] = scale * sum;
                    row_sums[(row * blocks + b) * UNITS + unit] = scale * sum;
                }
            }
        }
    }

    static float scale_of(const block_q8_0 & block) { return GGML_CPU_FP16_TO_FP32(block.d); }
    static float scale_of(const block_q8_K & block) { return block.d; }

    template <typename Of> static int32_t sum_of(const block_q8_0 & block, int) {
        const __m256i qs = _mm256_loadu_si256((const __m256i *) block.qs);
        const __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), qs);
        const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        const __m128i pair = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
        return _mm_cvtsi128_si32(pair) + _mm_extract_epi32(pair, 1);
    }

    template <typename Of> static int32_t sum_of(const block_q8_K & block, int unit) {
        if constexpr (Of::UNIT == GROUP) return block.bsums[2 * unit] + block.bsums[2 * unit + 1];
        else return block.bsums[unit];
    }
};

inline __m512i four(const int8_t * values) {
    int32_t of;
    std::memcpy(&of, values, sizeof(of));
    return _mm512_set1_epi32(of);
}

/** The products of a panel and COUNT rows of the batch, from `row` on; `row` is a multiple of TOGETHER. */
template <typename Of, int COUNT>
inline void multiply(const Panel & panel, const Batch & batch, int64_t row, int64_t width, float * out, int64_t stride,
                     __mmask16 lanes) {
    constexpr int STEPS = Of::UNIT / 4;
    const int64_t units = width / Of::UNIT;
    const float * scales = batch.scales + row * units;
    const int32_t * zeros = batch.zeros + row * units;
    const float * row_sums = batch.sums + row * units;
    const int8_t * values = batch.values + row * width;
    __m512 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm512_setzero_ps();
    for (int64_t u = 0; u < units; u++) {
        const __m512i * weights = (const __m512i *) (panel.bytes + u * Of::UNIT * LANES);
        __m512i sums[COUNT];
        for (int r = 0; r < COUNT; r++) {
            sums[r] = Of::ZERO == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(zeros[u * TOGETHER + r]);
        }
#pragma GCC unroll 8
        for (int step = 0; step < STEPS; step++) {
            const __m512i w = _mm512_load_si512(weights + step);
            for (int r = 0; r < COUNT; r++) {
                sums[r] = _mm512_dpbusd_epi32(sums[r], w, four(values + r * width + u * Of::UNIT + 4 * step));
            }
        }
        const __m512 scale = _mm512_load_ps(panel.scales + u * LANES);
        for (int r = 0; r < COUNT; r++) {
            const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(scales[u * TOGETHER + r]));
            totals[r] = _mm512_fmadd_ps(both, _mm512_cvtepi32_ps(sums[r]), totals[r]);
        }
        if constexpr (Of::HAS_MINIMUM) {
            const __m512 minimum = _mm512_load_ps(panel.minima + u * LANES);
            for (int r = 0; r < COUNT; r++) {
                totals[r] = _mm512_fnmadd_ps(minimum, _mm512_set1_ps(row_sums[u * TOGETHER + r]), totals[r]);
            }
        }
    }
    for (int r = 0; r < COUNT; r++) _mm512_mask_storeu_ps(out + r * stride, lanes, totals[r]);
}

/** Up to so many rows, a panel costs more than it saves where blocks hold several scales. */
constexpr int FEW = 6;

/** The lanes of a vector of sums of four that have the scale of each unit; `part` is the 64 weights' place in a block. */
template <typename Of> inline __m512i scale_lanes(int part) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_srli_epi32(lane, Of::UNIT == GROUP ? 3 : 2), _mm512_set1_epi32(part * 64 / Of::UNIT));
}

/** The products of one row of weights and COUNT rows of the batch. */
template <typename Block, int COUNT>
inline void dot(const Block * weights, const Batch & batch, int64_t blocks, float * out, int64_t stride) {
    using Of = Type<Block>;
    constexpr int UNITS = Of::GROUPS * GROUP / Of::UNIT;
    const int64_t width = blocks * Of::GROUPS * GROUP;
    __m512 totals[COUNT];
    for (int r = 0; r < COUNT; r++) totals[r] = _mm512_setzero_ps();
    for (int64_t b = 0; b < blocks; b++) {
        _mm_prefetch((const char *) (weights + b) + 1024, _MM_HINT_T0);
        _mm_prefetch((const char *) (weights + b) + 1024 + LINE, _MM_HINT_T0);
        __m256 scale[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        __m256 minimum = _mm256_setzero_ps();
        Of::scales(weights[b], scale, &minimum);
        const __m512 all = _mm512_insertf32x8(_mm512_castps256_ps512(scale[0]), scale[1], 1);
        __m512 sums[COUNT];
        for (int r = 0; r < COUNT; r++) sums[r] = _mm512_setzero_ps();
#pragma GCC unroll 4
        for (int part = 0; part < Of::GROUPS / 2; part++) {
            const __m512i w = _mm512_inserti64x4(
                _mm512_castsi256_si512(Of::bytes(weights[b], 2 * part)), Of::bytes(weights[b], 2 * part + 1), 1);
            const __m512 of_lanes = _mm512_permutexvar_ps(scale_lanes<Of>(part), all);
            for (int r = 0; r < COUNT; r++) {
                const __m512i v = _mm512_loadu_si512(batch.values + r * width + b * Of::GROUPS * GROUP + 64 * part);
                const __m512i products = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, v);
                sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products), of_lanes, sums[r]);
            }
        }
        for (int r = 0; r < COUNT; r++) {
            totals[r] = _mm512_fmadd_ps(sums[r], _mm512_set1_ps(batch.row_scales[r * blocks + b]), totals[r]);
            const float * row_sums = batch.row_sums + (r * blocks + b) * UNITS;
            // What each unit's values add for the zero point or the minimum of its weights.
            if constexpr (Of::HAS_MINIMUM) {
                const __m512 of_units = _mm512_zextps256_ps512(_mm256_mul_ps(minimum, _mm256_loadu_ps(row_sums)));
                totals[r] = _mm512_sub_ps(totals[r], of_units);
            } else {
                const __m512 zero = _mm512_mul_ps(all, _mm512_set1_ps((float) Of::ZERO));
                totals[r] = _mm512_fnmadd_ps(zero, _mm512_loadu_ps(row_sums), totals[r]);
            }
        }
    }
    for (int r = 0; r < COUNT; r++) out[r * stride] = _mm512_reduce_add_ps(totals[r]);
}

/** @param m rows of weights. @param n rows of the batch. @param out [row of the batch][row of weights] */
template <typename Block>
void product(const ggml_compute_params * params, int64_t m, int64_t n, int64_t blocks, const Block * weights,
             int64_t weights_stride, const void * rows, int64_t rows_stride, float * out, int64_t out_stride) {
    using Of = Type<Block>;
    static thread_local Batch batch;
    static thread_local Panel panel;
    const int64_t width = blocks * Of::GROUPS * GROUP;
    batch.read<Of>((const typename Of::Row *) rows, rows_stride, n, blocks);
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml_barrier(params->threadpool);
    const int64_t panels = (m + LANES - 1) / LANES;
    const int64_t chunk_rows = LANES * std::clamp<int64_t>(panels / (PARTS * params->nth), 1, MOST_PANELS);
    const int64_t chunks = (m + chunk_rows - 1) / chunk_rows;
    for (int64_t chunk = params->ith; chunk < chunks; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        const int64_t end = std::min(m, (chunk + 1) * chunk_rows);
        if constexpr (Of::GROUPS > 1) {
            if (n <= FEW) {
                for (int64_t first = chunk * chunk_rows; first < end; first++) {
                    const Block * one = weights + first * weights_stride;
                    float * to = out + first;
                    switch (n) {
                        case 1: dot<Block, 1>(one, batch, blocks, to, out_stride); break;
                        case 2: dot<Block, 2>(one, batch, blocks, to, out_stride); break;
                        case 3: dot<Block, 3>(one, batch, blocks, to, out_stride); break;
                        case 4: dot<Block, 4>(one, batch, blocks, to, out_stride); break;
                        case 5: dot<Block, 5>(one, batch, blocks, to, out_stride); break;
                        default: dot<Block, FEW>(one, batch, blocks, to, out_stride);
                    }
                }
                continue;
            }
        }
        for (int64_t first = chunk * chunk_rows; first < end; first += LANES) {
            const int64_t count = std::min<int64_t>(LANES, end - first);
            const __mmask16 lanes = (__mmask16) ((1u << count) - 1);
            panel.read(weights + first * weights_stride, weights_stride, count, blocks);
            for (int64_t row = 0; row < n; row += TOGETHER) {
                float * to = out + row * out_stride + first;
                switch (std::min<int64_t>(TOGETHER, n - row)) {
                    case 1: multiply<Of, 1>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 2: multiply<Of, 2>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 3: multiply<Of, 3>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 4: multiply<Of, 4>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 5: multiply<Of, 5>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 6: multiply<Of, 6>(panel, batch, row, width, to, out_stride, lanes); break;
                    case 7: multiply<Of, 7>(panel, batch, row, width, to, out_stride, lanes); break;
                    default: multiply<Of, TOGETHER>(panel, batch, row, width, to, out_stride, lanes);
                }
            }
        }
    }
    // The next product sets the counter.
    ggml_barrier(params->threadpool);
}

}  // namespace

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    const auto with = [&](const auto * weights) {
        product(params, m, n, k, weights, lda, B, ldb, (float *) C, ldc);
        return true;
    };
    if (Ctype == GGML_TYPE_F32 && Btype == GGML_TYPE_Q8_0) {
        if (Atype == GGML_TYPE_Q8_0) return with((const block_q8_0 *) A);
        if (Atype == GGML_TYPE_Q5_0) return with((const block_q5_0 *) A);
        if (Atype == GGML_TYPE_Q4_0) return with((const block_q4_0 *) A);
    }
    if (Ctype == GGML_TYPE_F32 && Btype == GGML_TYPE_Q8_K) {
        if (Atype == GGML_TYPE_Q4_K) return with((const block_q4_K *) A);
        if (Atype == GGML_TYPE_Q5_K) return with((const block_q5_K *) A);
        if (Atype == GGML_TYPE_Q6_K) return with((const block_q6_K *) A);
    }
    return other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

/** Whether products of quantised weights are computed here, unless the weights were rearranged for ggml's own code. */
extern "C" bool lookout_computes_products(void) {
#if defined(__AMX_INT8__)
    // ggml's own code for these processors computes on tiles, from rearranged weights.
    return false;
#else
    return true;
#endif
}

#else

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    return other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

extern "C" bool lookout_computes_products(void) { return false; }

#endif
