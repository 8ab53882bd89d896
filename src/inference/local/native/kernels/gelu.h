// Vectorised GELU for x86 with AVX2 or AVX-512. attention.cpp substitutes it for ggml's, which rounds each input to f16 and reads
// a lookup table, one element at a time. In image encoders, that took a tenth of the time of all matrix products.

#pragma once

#include "floats.h"
#include "vec.h"

#if defined(LOOKOUT_SIMD)

namespace {

/** For smaller inputs, each of these activations is negligible. */
constexpr float MIN_INPUT = -50.0f;

/**
 * x * sigmoid(-exponent) = x / (1 + exp(exponent)), for an exponent that falls as x grows. A NaN stays one: `max` and `min`
 * return their second operand where the two are unordered.
 */
inline Floats scaled_sigmoid(Floats x, Floats exponent) {
    const Floats limited = max(broadcast(MIN_EXPONENT), min(broadcast(-MIN_EXPONENT), exponent));
    return divide(max(broadcast(MIN_INPUT), x), add(broadcast(1.0f), ggml_v_expf(limited)));
}

/** The tanh approximation of GELU, computed with tanh(u) = 1 - 2 / (1 + exp(2 u)). */
inline Floats gelu(Floats x) {
    const Floats cubic = multiply(x, fma(multiply(x, x), broadcast(GELU_COEF_A), broadcast(1.0f)));
    return scaled_sigmoid(x, multiply(cubic, broadcast(-2.0f * SQRT_2_OVER_PI)));
}

/** QuickGELU: x * sigmoid(1.702 x). */
inline Floats gelu_quick(Floats x) { return scaled_sigmoid(x, multiply(x, broadcast(GELU_QUICK_COEF))); }

/** y = function(x) * factors, elementwise. @param factors null for none. */
template <typename Function>
inline void map(int n, float * y, const float * x, const float * factors, const Function & function) {
    for (int i = 0; i < n; i += LANES) {
        const int count = n - i;
        const Floats y_i = function(load_partial(x + i, count));
        store_partial(y + i, count, factors == nullptr ? y_i : multiply(y_i, load_partial(factors + i, count)));
    }
}

inline void vec_gelu(int n, float * y, const float * x) {
    map(n, y, x, nullptr, [](Floats v) { return gelu(v); });
}

inline void vec_gelu_quick(int n, float * y, const float * x) {
    map(n, y, x, nullptr, [](Floats v) { return gelu_quick(v); });
}

inline void vec_geglu(int n, float * y, const float * x, const float * factors) {
    map(n, y, x, factors, [](Floats v) { return gelu(v); });
}

}  // namespace

#define ggml_vec_gelu_f32 vec_gelu
#define ggml_vec_gelu_quick_f32 vec_gelu_quick
#define ggml_vec_geglu_f32 vec_geglu

#endif
