// Vectorised quantisation of rows to Q8_K, the activation type of Q4_K, Q5_K and Q6_K. ggml has only scalar code for x86. The
// result is the same, bit for bit.

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml-quants.h"

#include <cstdint>
#include <cstring>
#include <immintrin.h>

extern "C" void lookout_quantize_row_q8_K(const float * x, void * blocks, int64_t k);

#if defined(__AVX2__) && defined(__FMA__)

namespace {

/** Lanes of __m256. */
constexpr int F32_LANES = 8;
/** Values per entry of `bsums`. */
constexpr int SUM_WIDTH = 16;

inline __m256 abs_ps(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

/** The first value with the largest magnitude. */
inline float absmax(const float * x) {
    __m256 absmax_value = _mm256_setzero_ps();
    // For a NaN, max returns the second operand.
    for (int i = 0; i < QK_K; i += F32_LANES) absmax_value = _mm256_max_ps(abs_ps(_mm256_loadu_ps(x + i)), absmax_value);
    __m128 of_four = _mm_max_ps(_mm256_castps256_ps128(absmax_value), _mm256_extractf128_ps(absmax_value, 1));
    of_four = _mm_max_ps(of_four, _mm_movehl_ps(of_four, of_four));
    const __m256 largest = _mm256_set1_ps(_mm_cvtss_f32(_mm_max_ss(of_four, _mm_movehdup_ps(of_four))));
    for (int i = 0; i < QK_K; i += F32_LANES) {
        const int matches = _mm256_movemask_ps(_mm256_cmp_ps(abs_ps(_mm256_loadu_ps(x + i)), largest, _CMP_EQ_OQ));
        if (matches != 0) return x[i + __builtin_ctz(matches)];
    }
    return 0.0f;
}

/** Rounds to the nearest integers, as ggml's `nearest_int`: 1.5 * 2^23 + x has no bits left for the fraction. */
inline __m256i round_to_i32(__m256 x) {
    const __m256i bits = _mm256_castps_si256(_mm256_add_ps(x, _mm256_set1_ps(12582912.0f)));
    return _mm256_sub_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)), _mm256_set1_epi32(0x00400000));
}

}  // namespace

void lookout_quantize_row_q8_K(const float * x, void * blocks, int64_t k) {
    auto * block = (block_q8_K *) blocks;
    for (int64_t i = 0; i < k; i += QK_K, x += QK_K, block++) {
        const float absmax_value = absmax(x);
        if (absmax_value == 0.0f) {
            std::memset(block, 0, sizeof(*block));
            continue;
        }
        const float inverse = -127.0f / absmax_value;
        const __m256 factor = _mm256_set1_ps(inverse);
        for (int at = 0; at < QK_K; at += SUM_WIDTH) {
            const __m256i low = round_to_i32(_mm256_mul_ps(_mm256_loadu_ps(x + at), factor));
            const __m256i high = round_to_i32(_mm256_mul_ps(_mm256_loadu_ps(x + at + F32_LANES), factor));
            const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
            const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
            _mm_storeu_si128((__m128i *) (block->qs + at), bytes);
            const __m256i pairs = _mm256_madd_epi16(_mm256_cvtepi8_epi16(bytes), _mm256_set1_epi16(1));
            __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
            sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
            block->bsums[at / SUM_WIDTH] = (int16_t) (_mm_cvtsi128_si32(sum) + _mm_extract_epi32(sum, 1));
        }
        block->d = 1.0f / inverse;
    }
}

#else

void lookout_quantize_row_q8_K(const float * x, void * blocks, int64_t k) { quantize_row_q8_K_ref(x, (block_q8_K *) blocks, k); }

#endif
