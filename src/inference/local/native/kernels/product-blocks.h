// How blocks of quantised weights become bytes and scales. See product.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <vector>

#include "ggml-cpu-impl.h"
#include "ggml-quants.h"

namespace {

/** Weights and values are read in groups of so many. */
constexpr int GROUP = 32;
/** Bytes of a line of the processor's caches. */
constexpr int LINE = 64;

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

/** Makes each of 32 bits a byte with all bits set or none. */
inline __m256i spread(uint32_t bits) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return _mm256_movm_epi8(bits);
#else
    const __m256i of_byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t) 0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t) bits), of_byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
#endif
}

inline float single(ggml_half value) { return _cvtsh_ss(value); }

/** Of eight unsigned bytes. */
inline __m256 floats(uint64_t bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t) bytes)));
}

/**
 * How blocks of a type are unpacked. A weight is (byte - ZERO) * scale - minimum; UNIT neighbours share scale and minimum.
 * `Row` is the type of the batch's rows, LARGEST the largest byte. `whole_scales` are a block's scales before they are
 * multiplied with the block's own, `scales` after it.
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
    static constexpr int LARGEST = 255;
    static __m256i bytes(const block_q8_0 & block, int) {
        return _mm256_xor_si256(_mm256_loadu_si256((const __m256i *) block.qs), _mm256_set1_epi8((char) 0x80));
    }
};

template <> struct Type<block_q4_0> : OneScale<block_q4_0> {
    static constexpr int ZERO = 8;
    static constexpr int LARGEST = 15;
    static __m256i bytes(const block_q4_0 & block, int) { return nibbles(block.qs); }
};

template <> struct Type<block_q5_0> : OneScale<block_q5_0> {
    static constexpr int ZERO = 16;
    static constexpr int LARGEST = 31;
    static __m256i bytes(const block_q5_0 & block, int) {
        uint32_t high;
        std::memcpy(&high, block.qh, sizeof(high));
        const __m256i low = nibbles(block.qs);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
        return _mm256_mask_add_epi8(low, high, low, _mm256_set1_epi8(16));
#else
        return _mm256_or_si256(low, _mm256_and_si256(spread(high), _mm256_set1_epi8(16)));
#endif
    }
};

/** Q4_K and Q5_K: eight groups, with scales and minima of six bits. */
template <typename Block> struct Minima {
    using Row = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int UNIT = GROUP;
    static constexpr bool HAS_MINIMUM = true;
    static constexpr int ZERO = 0;

    /** Eight scales or minima, a byte each. */
    static uint64_t packed_scales(const Block & block) {
        return (uint64_t) last(block, 0) << 32 | (word(block, 0) & 0x3f3f3f3f);
    }
    static uint64_t packed_minima(const Block & block) {
        return (uint64_t) last(block, 1) << 32 | (word(block, 1) & 0x3f3f3f3f);
    }

    static void scales(const Block & block, __m256 * scales, __m256 * minima) {
        *scales = _mm256_mul_ps(floats(packed_scales(block)), _mm256_set1_ps(single(block.d)));
        *minima = Minima::minima(block);
    }
    static __m128i whole_scales(const Block & block) { return _mm_cvtsi64_si128((int64_t) packed_scales(block)); }
    static __m256 minima(const Block & block) {
        return _mm256_mul_ps(floats(packed_minima(block)), _mm256_set1_ps(single(block.dmin)));
    }

  private:
    static uint32_t word(const Block & block, int number) {
        uint32_t word;
        std::memcpy(&word, block.scales + sizeof(word) * number, sizeof(word));
        return word;
    }
    /** The last four scales (0) or minima (1): their lower four bits are in the third word, their upper two in the others. */
    static uint32_t last(const Block & block, int which) {
        const uint32_t lower = (word(block, 2) >> (4 * which)) & 0x0f0f0f0f;
        return lower | ((word(block, which) >> 6) & 0x03030303) << 4;
    }
};

template <> struct Type<block_q4_K> : Minima<block_q4_K> {
    static constexpr int LARGEST = 15;
    static __m256i bytes(const block_q4_K & block, int group) {
        return halves(block.qs + group / 2 * GROUP, group % 2 == 1);
    }
};

template <> struct Type<block_q5_K> : Minima<block_q5_K> {
    static constexpr int LARGEST = 31;
    static __m256i bytes(const block_q5_K & block, int group) {
        const __m256i low = halves(block.qs + group / 2 * GROUP, group % 2 == 1);
        const __m256i bits = _mm256_loadu_si256((const __m256i *) block.qh);
        const __m256i bit = _mm256_set1_epi8((char) (1 << group));
        const __m256i high = _mm256_cmpeq_epi8(_mm256_and_si256(bits, bit), bit);
        return _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi8(16)));
    }
};

/** Sixteen scales of eight bits. */
template <> struct Type<block_q6_K> {
    using Row = block_q8_K;
    static constexpr int GROUPS = QK_K / GROUP;
    static constexpr int UNIT = GROUP / 2;
    static constexpr bool HAS_MINIMUM = false;
    static constexpr int ZERO = 32;
    static constexpr int LARGEST = 63;

    static __m256i bytes(const block_q6_K & block, int group) {
        const int part = group % 4;
        const uint8_t * packed = block.ql + group / 4 * 2 * GROUP + part % 2 * GROUP;
        const __m256i high = _mm256_loadu_si256((const __m256i *) (block.qh + group / 4 * GROUP));
        const __m256i two = _mm256_and_si256(_mm256_srli_epi16(high, 2 * part), _mm256_set1_epi8(3));
        return _mm256_or_si256(halves(packed, part >= 2), _mm256_slli_epi16(two, 4));
    }

    static __m128i whole_scales(const block_q6_K & block) { return _mm_loadu_si128((const __m128i *) block.scales); }
    static void scales(const block_q6_K & block, __m256 * scales, __m256 *) {
        const __m256 d = _mm256_set1_ps(single(block.d));
        for (int i = 0; i < 2; i++) {
            const __m128i eight = _mm_loadl_epi64((const __m128i *) (block.scales + 8 * i));
            scales[i] = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), d);
        }
    }
};

/** Memory that grows, aligned to lines. */
template <typename Item> struct Buffer {
    std::vector<uint8_t> memory;

    Item * of(size_t count) {
        const size_t bytes = count * sizeof(Item) + LINE;
        if (memory.size() < bytes) memory.resize(bytes);
        return (Item *) (((uintptr_t) memory.data() + LINE - 1) / LINE * LINE);
    }
};

}  // namespace
