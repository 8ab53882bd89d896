// Exponentials of a row's logits, their sums, and a histogram of them.

#pragma once

#include "logit-rows.h"

#include <limits>

namespace {

constexpr double LN_2 = 0.6931471805599453;

/** exp() of anything smaller changes no sum over a vocabulary whose largest term is exp(0). */
constexpr double MIN_EXPONENT = -45;

/** exp(x) for x from -45 to 0, exact to 1e-15: range reduction and a Taylor polynomial, which compilers vectorise. */
inline double fast_exp(double x) {
    // x = power * ln 2 + r, with |r| at most ln 2 / 2.
    const int32_t power = (int32_t) (x * LOG2_E - 0.5);
    const double r = x - power * LN_2;
    double sum = r * (1.0 / 479001600) + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 1.0 / 2;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const int64_t bits = (int64_t) (power + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof(scale));
    return sum * scale;
}

/** exp(logit - max_logit) of a chunk. 0 for logits that are negligible, NaN or not allowed. */
inline void exp_relative(const float * values, uint32_t bits, float max_logit, double * out) {
    // Separate loops, and products instead of branches: otherwise compilers do not vectorise.
    double differences[CHUNK];
    for (int i = 0; i < CHUNK; i++) {
        const double x = (double) values[i] - max_logit;
        differences[i] = x > MIN_EXPONENT ? x : MIN_EXPONENT;
    }
    for (int i = 0; i < CHUNK; i++) out[i] = fast_exp(differences[i]);
    for (int i = 0; i < CHUNK; i++) out[i] *= (double) (int32_t) (differences[i] > MIN_EXPONENT);
    if (bits == UINT32_MAX) return;
    for (int i = 0; i < CHUNK; i++) out[i] *= (double) (int32_t) has_bit(bits, i);
}

/** Sum of exp(logit - max_logit). @return NaN where an allowed logit is NaN, or the maximum is infinite. */
double sum_exp_of_part(const Row & row, float max_logit) {
    double lanes[CHUNK] = {};
    uint32_t nans = std::isinf(max_logit);
    row.each([&](int32_t, const float * values, uint32_t bits) {
        double exponentials[CHUNK];
        exp_relative(values, bits, max_logit, exponentials);
        for (int i = 0; i < CHUNK; i++) nans |= (uint32_t) has_bit(bits, i) & (uint32_t) (values[i] != values[i]);
        for (int i = 0; i < CHUNK; i++) lanes[i] += exponentials[i];
    });
    if (nans != 0) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

/** Tokens whose logit is this far below the maximum are never in the nucleus. */
constexpr float NEGLIGIBLE = 30;
constexpr int BINS = 1024;

/** A histogram's bins, from the maximum down to the lowest logit that is not negligible. */
struct Bins {
    float max_logit;
    float lowest;
    float scale;

    Bins(const Row & row, float max_logit) : max_logit(max_logit) {
        float lanes[CHUNK];
        std::fill(lanes, lanes + CHUNK, max_logit);
        const float negligible = max_logit - NEGLIGIBLE;
        row.each([&](int32_t, const float * values, uint32_t bits) {
            for (int i = 0; i < CHUNK; i++) {
                const float value = has_bit(bits, i) && values[i] >= negligible ? values[i] : max_logit;
                lanes[i] = value < lanes[i] ? value : lanes[i];
            }
        });
        lowest = *std::min_element(lanes, lanes + CHUNK);
        scale = BINS / std::max(max_logit - lowest, 1e-6f);
    }

    int of(float logit) const { return std::min(BINS - 1, (int) ((max_logit - logit) * scale)); }
};

}  // namespace
