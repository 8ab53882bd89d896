// Packs rows of weights into a panel. gemm-avx2.h and gemm-avx512.h include it after the vectors that it uses. See gemm.cpp.
#pragma once

namespace {

/** MR rows of weights: bytes, and scales and mins for each lane. */
struct WeightPanel {
    AlignedBuffer<uint8_t> bytes_buffer;
    AlignedBuffer<float> scales_buffer, min_scales_buffer;
    AlignedBuffer<int32_t> sub_scales_buffer, mins_buffer;
    AlignedBuffer<ggml_half> f16_buffer;
    /** A vector holds four neighbouring weights of each row. */
    uint8_t * bytes;
    /** Scales of blocks, and of their mins: [block][lane]. */
    float * scales;
    float * min_scales;
    /** Integers, where a block has several scales: [sub-block][lane], and pairs of 16-bit mins, [pair of sub-blocks][lane]. */
    int32_t * sub_scales;
    int32_t * mins;

    /** @param count rows, from 1 to MR; the last one is repeated in the remaining lanes. */
    template <typename Block> void pack(const Block * weights, int64_t stride, int64_t count, int64_t blocks) {
        using Of = QuantTraits<Block>;
        constexpr int SUB_BLOCKS = Of::GROUPS * GROUP / Of::SUB_BLOCK;
        bytes = bytes_buffer.reserve(blocks * Of::GROUPS * GROUP * MR);
        scales = scales_buffer.reserve(blocks * MR);
        min_scales = min_scales_buffer.reserve(Of::HAS_MIN ? blocks * MR : 0);
        sub_scales = sub_scales_buffer.reserve(SUB_BLOCKS > 1 ? blocks * SUB_BLOCKS * MR : 0);
        // `transpose` writes as much again.
        mins = mins_buffer.reserve(Of::HAS_MIN ? (blocks + 1) * SUB_BLOCKS / 2 * MR : 0);
        ggml_half * scales_f16 = nullptr;
        if constexpr (CONVERTS_SCALES_LAST) scales_f16 = f16_buffer.reserve((Of::HAS_MIN ? 2 : 1) * blocks * MR);
        const Block * rows[MR];
        for (int lane = 0; lane < MR; lane++) rows[lane] = weights + std::min<int64_t>(lane, count - 1) * stride;
        // The rows of a panel are contiguous, but MR short streams are too many for the hardware prefetcher: this prefetches
        // the next panel.
        const char * next = (const char *) (weights + MR * stride);
        __m256i lanes[MR];
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t first = b * MR * sizeof(Block);
            for (int64_t at = first; at < first + MR * (int64_t) sizeof(Block); at += CACHE_LINE) {
                _mm_prefetch(next + at, _MM_HINT_T1);
            }
            pack_bytes(rows, b, lanes, bytes);
            for (int lane = 0; lane < MR; lane++) {
                if constexpr (CONVERTS_SCALES_LAST) {
                    scales_f16[b * MR + lane] = scale_bits(rows[lane][b]);
                    if constexpr (Of::HAS_MIN) scales_f16[(blocks + b) * MR + lane] = rows[lane][b].dmin;
                } else {
                    scales[b * MR + lane] = scale_to_f32<Block>(scale_bits(rows[lane][b]));
                    if constexpr (Of::HAS_MIN) min_scales[b * MR + lane] = to_f32(rows[lane][b].dmin);
                }
            }
            if constexpr (SUB_BLOCKS > 1) {
                for (int part = 0; part < SUB_BLOCKS / 8; part++) {
                    for (int lane = 0; lane < MR; lane++) {
                        const __m128i scales_i8 = Of::sub_scales(rows[lane][b]);
                        lanes[lane] = _mm256_cvtepi8_epi32(part == 0 ? scales_i8 : _mm_unpackhi_epi64(scales_i8, scales_i8));
                    }
                    transpose(lanes, (VectorI32 *) (sub_scales + (b * SUB_BLOCKS + 8 * part) * MR));
                }
            }
            if constexpr (Of::HAS_MIN) {
                for (int lane = 0; lane < MR; lane++) {
                    const __m128i packed = _mm_cvtsi64_si128((int64_t) Of::packed_mins(rows[lane][b]));
                    lanes[lane] = _mm256_zextsi128_si256(_mm_cvtepu8_epi16(packed));
                }
                transpose(lanes, (VectorI32 *) (mins + b * SUB_BLOCKS / 2 * MR));
            }
        }
        if constexpr (CONVERTS_SCALES_LAST) {
            for (int64_t b = 0; b < blocks; b++) {
                store(scales + b * MR, load_scales<Block>(scales_f16 + b * MR));
                if constexpr (Of::HAS_MIN) store(min_scales + b * MR, load_f16(scales_f16 + (blocks + b) * MR));
            }
        }
    }
};

}  // namespace
