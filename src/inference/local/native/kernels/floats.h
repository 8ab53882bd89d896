// SIMD vectors of f32 for x86: 16 lanes with AVX-512, 8 with AVX2.

#pragma once

#include "ggml-impl.h"
#include "simd-mappings.h"

#include <cfloat>
#include <cstring>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define LOOKOUT_SIMD

#include <immintrin.h>

namespace {

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define LOOKOUT_AVX512
using Floats = __m512;
constexpr int LANES = 16;
inline Floats load(const float * p) { return _mm512_loadu_ps(p); }
inline void store(float * p, Floats x) { _mm512_storeu_ps(p, x); }
inline Floats load_f16(const ggml_fp16_t * p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *) p)); }
inline Floats load_i8(const int8_t * p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) p))); }
inline Floats broadcast(float x) { return _mm512_set1_ps(x); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
inline float reduce_max(Floats x) { return _mm512_reduce_max_ps(x); }
inline float reduce_add(Floats x) { return _mm512_reduce_add_ps(x); }
/** Compress store: writes the lanes that `bits` selects contiguously. It may write up to LANES floats. @return lanes selected. */
inline int compress_store(float * to, Floats x, uint32_t bits) {
    store(to, _mm512_maskz_compress_ps(bits, x));
    return __builtin_popcount((__mmask16) bits);
}
/** Expand load: fills the lanes that `bits` selects from contiguous floats, the others with 0. @return lanes selected. */
inline int expand_load(const float * from, uint32_t bits, float * to) {
    store(to, _mm512_maskz_expand_ps(bits, load(from)));
    return __builtin_popcount((__mmask16) bits);
}
/** `x`, with 0 in the lanes whose score is minus infinity. */
inline Floats zero_masked(Floats scores, Floats x) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(scores, broadcast(-FLT_MAX), _CMP_GE_OQ), x);
}
#else
using Floats = __m256;
constexpr int LANES = 8;
inline Floats load(const float * p) { return _mm256_loadu_ps(p); }
inline void store(float * p, Floats x) { _mm256_storeu_ps(p, x); }
inline Floats load_f16(const ggml_fp16_t * p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *) p)); }
inline Floats load_i8(const int8_t * p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) p))); }
inline Floats broadcast(float x) { return _mm256_set1_ps(x); }
inline Floats fma(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
inline Floats max(Floats a, Floats b) { return _mm256_max_ps(a, b); }
inline Floats min(Floats a, Floats b) { return _mm256_min_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
inline float reduce_max(Floats x) {
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}
inline float reduce_add(Floats x) {
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
inline int compress_store(float * to, Floats x, uint32_t bits) {
    alignas(32) float lanes[LANES];
    store(lanes, x);
    bits &= 0xFF;
    if (bits == 0xFF) store(to, x);
    else for (uint32_t left = bits; left != 0; left &= left - 1) *to++ = lanes[__builtin_ctz(left)];
    return __builtin_popcount(bits);
}
inline int expand_load(const float * from, uint32_t bits, float * to) {
    int count = 0;
    for (int lane = 0; lane < LANES; lane++) to[lane] = bits >> lane & 1 ? from[count++] : 0.0f;
    return count;
}
inline Floats zero_masked(Floats scores, Floats x) {
    return _mm256_and_ps(x, _mm256_cmp_ps(scores, broadcast(-FLT_MAX), _CMP_GE_OQ));
}
#endif

/** exp() of anything smaller is negligible in a softmax, whose largest term is exp(0). */
constexpr float MIN_EXPONENT = -87.0f;

/** Loads the first `count` lanes; the others are 0. */
inline Floats load_partial(const float * from, int64_t count) {
    if (count >= LANES) return load(from);
    float padded[LANES] = {};
    if (count > 0) memcpy(padded, from, count * sizeof(*from));
    return load(padded);
}

inline Floats load_partial_f16(const ggml_fp16_t * from, int64_t count) {
    if (count >= LANES) return load_f16(from);
    ggml_fp16_t padded[LANES] = {};
    if (count > 0) memcpy(padded, from, count * sizeof(*from));
    return load_f16(padded);
}

inline void store_partial(float * to, int64_t count, Floats x) {
    if (count >= LANES) return store(to, x);
    float padded[LANES];
    store(padded, x);
    memcpy(to, padded, count * sizeof(*to));
}

}  // namespace

#endif
