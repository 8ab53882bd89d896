// GELU for x86 with AVX2 or AVX-512; attention.cpp puts it in place of ggml's, which rounds each number to f16 and looks its
// result up in a table, one at a time. In image encoders that took as long as a tenth of all products.

#pragma once

#include "floats.h"
#include "vec.h"

#if defined(LOOKOUT_FLOATS)

namespace {

/** Of a smaller number each of these functions is negligible. */
constexpr float SMALLEST = -50.0f;

/**
 * x / (1 + exp(exponent)), for an exponent that falls where x grows. What is no number stays so: of two numbers that cannot
 * be compared, `larger` and `smaller` return the second.
 */
inline Floats share(Floats x, Floats exponent) {
    const Floats limited = larger(all(SMALLEST_EXPONENT), smaller(all(-SMALLEST_EXPONENT), exponent));
    return divide(larger(all(SMALLEST), x), add(all(1.0f), ggml_v_expf(limited)));
}

/** With the hyperbolic tangent, as tanh(u) = 1 - 2 / (1 + exp(2 u)). */
inline Floats gelu(Floats x) {
    const Floats cubic = multiply(x, fma(multiply(x, x), all(GELU_COEF_A), all(1.0f)));
    return share(x, multiply(cubic, all(-2.0f * SQRT_2_OVER_PI)));
}

inline Floats gelu_quick(Floats x) { return share(x, multiply(x, all(GELU_QUICK_COEF))); }

template <typename Of> inline void of_each(int n, float * y, const float * x, const float * factors, const Of & of) {
    for (int i = 0; i < n; i += LANES) {
        const int count = n - i;
        const Floats found = of(some(x + i, count));
        store_some(y + i, count, factors == nullptr ? found : multiply(found, some(factors + i, count)));
    }
}

inline void vec_gelu(int n, float * y, const float * x) {
    of_each(n, y, x, nullptr, [](Floats of) { return gelu(of); });
}

inline void vec_gelu_quick(int n, float * y, const float * x) {
    of_each(n, y, x, nullptr, [](Floats of) { return gelu_quick(of); });
}

inline void vec_geglu(int n, float * y, const float * x, const float * factors) {
    of_each(n, y, x, factors, [](Floats of) { return gelu(of); });
}

}  // namespace

#define ggml_vec_gelu_f32 vec_gelu
#define ggml_vec_gelu_quick_f32 vec_gelu_quick
#define ggml_vec_geglu_f32 vec_geglu

#endif
