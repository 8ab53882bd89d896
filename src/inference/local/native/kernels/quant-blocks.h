// Unpacks ggml's blocks of quantised weights into bytes and scales. See gemm.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <immintrin.h>

#include "ggml-cpu-impl.h"
#include "ggml-quants.h"

namespace {

/** Weights that `unpack` returns at a time. */
constexpr int GROUP = 32;

/** Unpacks 32 nibbles of 16 bytes: the low ones, then the high ones. */
inline __m256i nibbles(const uint8_t * packed) {
    const __m128i both = _mm_loadu_si128((const __m128i *) packed);
    const __m256i wide = _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
    return _mm256_and_si256(wide, _mm256_set1_epi8(0x0f));
}

/** Unpacks the low or the high nibbles of 32 bytes. */
inline __m256i nibbles_of(const uint8_t * packed, bool upper) {
    const __m256i both = _mm256_loadu_si256((const __m256i *) packed);
    return _mm256_and_si256(upper ? _mm256_srli_epi16(both, 4) : both, _mm256_set1_epi8(0x0f));
}

/** Expands 32 bits to bytes of 0x00 or 0xff. */
inline __m256i bits_to_bytes(uint32_t bits) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return _mm256_movm_epi8(bits);
#else
    const __m256i of_byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t) 0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t) bits), of_byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
#endif
}

/** Looks nibbles up in a table of sixteen bytes. */
inline __m256i look_up(__m256i nibbles, __m128i table) { return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles); }

inline float to_f32(ggml_half value) { return _cvtsh_ss(value); }

/** Converts eight unsigned bytes. */
inline __m256 u8x8_to_f32(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t) bytes)));
}

/**
 * The format of a block type. A weight is (byte - ZERO_POINT) * scale - min; the SUB_BLOCK weights of a sub-block share scale and
 * min. A block has GROUPS groups of 32 weights. `Activation` is the block type of the batch (ggml's `vec_dot_type`), MAX_QUANT
 * the largest byte. `sub_scales` returns the integer scales of the sub-blocks, which the block's own scale multiplies. That is
 * an f16, or a bf16 where `HAS_BF16_SCALE`.
 */
template <typename Block> struct QuantTraits;

/** The 16 bits of a block's scale. */
template <typename Block> inline uint16_t scale_bits(const Block & block) { return block.d; }
/** Here, the scale is 2^(e - 128). */
inline uint16_t scale_bits(const block_mxfp4 & block) { return block.e < 2 ? 0x20 << block.e : (block.e - 1) << 7; }

template <typename Block> constexpr bool HAS_BF16_SCALE = std::is_same_v<Block, block_mxfp4>;

template <typename Block> inline float scale_to_f32(uint16_t bits) {
    if constexpr (HAS_BF16_SCALE<Block>) return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits << 16)));
    else return to_f32(bits);
}

/** Blocks of one group with one scale. */
template <typename Block> struct SingleScale {
    using Activation = block_q8_0;
    static constexpr int GROUPS = 1;
    static constexpr int SUB_BLOCK = GROUP;
    static constexpr bool HAS_MIN = false;
};

template <> struct QuantTraits<block_q8_0> : SingleScale<block_q8_0> {
    static constexpr int ZERO_POINT = 128;
    static constexpr int MAX_QUANT = 255;
    static __m256i unpack(const block_q8_0 & block, int) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) block.qs), _mm256_set1_epi8((char) 0x80));
    }
};

template <> struct QuantTraits<block_q4_0> : SingleScale<block_q4_0> {
    static constexpr int ZERO_POINT = 8;
    static constexpr int MAX_QUANT = 15;
    static __m256i unpack(const block_q4_0 & block, int) { return nibbles(block.qs); }
};

template <> struct QuantTraits<block_q5_0> : SingleScale<block_q5_0> {
    static constexpr int ZERO_POINT = 16;
    static constexpr int MAX_QUANT = 31;
    static __m256i unpack(const block_q5_0 & block, int) {
        uint32_t high;
        std::memcpy(&high, block.qh, sizeof(high));
        const __m256i low = nibbles(block.qs);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
        return _mm256_mask_add_epi8(low, high, low, _mm256_set1_epi8(16));
#else
        return _mm256_or_si256(low, _mm256_and_si256(bits_to_bytes(high), _mm256_set1_epi8(16)));
#endif
    }
};

/** As Q4_0, but nibbles stand for numbers that are not evenly spaced. */
template <> struct QuantTraits<block_iq4_nl> : SingleScale<block_iq4_nl> {
    static constexpr int ZERO_POINT = 128;
    static constexpr int MAX_QUANT = 255;
    static __m256i unpack(const block_iq4_nl & block, int) {
        return look_up(nibbles(block.qs), _mm_setr_epi8(1, 24, 45, 63, 79, 93, 106, 118, -127, -115, -103, -90, -75, -59, -39, -15));
    }
};

template <> struct QuantTraits<block_mxfp4> : SingleScale<block_mxfp4> {
    static constexpr int ZERO_POINT = 12;
    static constexpr int MAX_QUANT = 24;
    static __m256i unpack(const block_mxfp4 & block, int) {
        return look_up(nibbles(block.qs), _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    }
};

/** Q4_K and Q5_K: eight groups, with 6-bit scales and mins. */
template <typename Block> struct ScaleMin {
    using Activation = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int SUB_BLOCK = GROUP;
    static constexpr bool HAS_MIN = true;
    static constexpr int ZERO_POINT = 0;

    /** Eight scales or mins, a byte each. */
    static uint64_t packed_scales(const Block & block) {
        return (uint64_t) last(block, 0) << 32 | (word(block, 0) & 0x3f3f3f3f);
    }
    static uint64_t packed_mins(const Block & block) {
        return (uint64_t) last(block, 1) << 32 | (word(block, 1) & 0x3f3f3f3f);
    }

    static __m128i sub_scales(const Block & block) { return _mm_cvtsi64_si128((int64_t) packed_scales(block)); }

  private:
    static uint32_t word(const Block & block, int number) {
        uint32_t word;
        std::memcpy(&word, block.scales + sizeof(word) * number, sizeof(word));
        return word;
    }
    /** The last four scales (0) or mins (1): the low four bits are in the third word, the high two in the others. */
    static uint32_t last(const Block & block, int which) {
        const uint32_t lower = (word(block, 2) >> (4 * which)) & 0x0f0f0f0f;
        return lower | ((word(block, which) >> 6) & 0x03030303) << 4;
    }
};

template <> struct QuantTraits<block_q4_K> : ScaleMin<block_q4_K> {
    static constexpr int MAX_QUANT = 15;
    static __m256i unpack(const block_q4_K & block, int group) {
        return nibbles_of(block.qs + group / 2 * GROUP, group % 2 == 1);
    }
};

template <> struct QuantTraits<block_q5_K> : ScaleMin<block_q5_K> {
    static constexpr int MAX_QUANT = 31;
    static __m256i unpack(const block_q5_K & block, int group) {
        const __m256i low = nibbles_of(block.qs + group / 2 * GROUP, group % 2 == 1);
        const __m256i bits = _mm256_loadu_si256((const __m256i *) block.qh);
        const __m256i bit = _mm256_set1_epi8((char) (1 << group));
        const __m256i high = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
        return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(16)));
    }
};

/** Q6_K: sixteen 8-bit scales. */
template <> struct QuantTraits<block_q6_K> {
    using Activation = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int SUB_BLOCK = GROUP / 2;
    static constexpr bool HAS_MIN = false;
    static constexpr int ZERO_POINT = 32;
    static constexpr int MAX_QUANT = 63;

    static __m256i unpack(const block_q6_K & block, int group) {
        const int part = group % 4;
        const uint8_t * packed = block.ql + group / 4 * 2 * GROUP + part % 2 * GROUP;
        const __m256i high = _mm256_loadu_si256((const __m256i *) (block.qh + group / 4 * GROUP));
        const __m256i two = _mm256_and_si256(_mm256_srli_epi16(high, 2 * part), _mm256_set1_epi8(3));
        return _mm256_or_si256(nibbles_of(packed, part >= 2), _mm256_slli_epi16(two, 4));
    }

    static __m128i sub_scales(const block_q6_K & block) { return _mm_loadu_si128((const __m128i *) block.scales); }
};

}  // namespace
