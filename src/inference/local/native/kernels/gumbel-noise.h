// Gumbel noise of tokens, and the token of a part of a row that it makes the largest.

#pragma once

#include "logit-rows.h"

namespace {

/** MurmurHash3 fmix32. */
inline uint32_t fmix32(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x85ebca6b;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35;
    return bits ^ (bits >> 16);
}

/** A token's random bits. 0x9e3779b1 is the odd number nearest to 2^32 / phi (Fibonacci hashing). */
inline uint32_t random_bits(uint32_t draw_seed, int32_t token) {
    return fmix32(draw_seed ^ ((uint32_t) (token + 1) * 0x9e3779b1u));
}

/** Standard Gumbel noise: -ln(-ln u). */
inline double gumbel_noise(uint32_t bits) { return -std::log(-std::log((bits + 0.5) / 4294967296.0)); }

/** Upper bound of `gumbel_noise`. */
constexpr double MAX_NOISE = 23;
/** More than the rounding errors of the f32 scores. */
constexpr float SLACK = 0.01f;

/**
 * Whether a token's noise may exceed its deficit x. With u = (bits + .5) / 2^32, noise above x means u above exp(-exp(-x)), which
 * is at least 1 - exp(-x). So 1 - u must be below exp(-x). A linear interpolation between powers of two bounds it from above.
 */
inline bool may_exceed(uint32_t bits, float deficit) {
    const float power = std::max(-126.0f, std::min(0.0f, (SLACK - deficit) * (float) LOG2_E));
    const int32_t line = (int32_t) ((power + 127.0f) * 8388608.0f);
    float bound;
    memcpy(&bound, &line, sizeof(bound));
    return (float) (int32_t) (~bits >> 1) * (1.0f / 2147483648.0f) <= bound * 1.001f;
}

/** A token and its perturbed logit: logit / temperature + noise. */
struct Sample {
    int32_t token;
    double perturbed;
};

/** @param offset of the part's first token in the whole row. @param max_logit of the whole row. */
Sample sample_part(const Row & row, int32_t offset, float max_logit, double temperature, double min_logit, uint32_t draw_seed) {
    Sample best{-1, -INFINITY};
    const float inverse = (float) (1 / temperature);
    row.each([&](int32_t first, const float * values, uint32_t bits) {
        int found = 0;
        for (int i = 0; i < CHUNK; i++) {
            const float score = (values[i] - max_logit) * inverse;
            found |= may_exceed(random_bits(draw_seed, offset + first + i), (float) best.perturbed - score) ? 1 : 0;
        }
        if (found == 0) return;
        for (int i = 0; i < CHUNK; i++) {
            if (!has_bit(bits, i) || !(values[i] >= min_logit)) continue;
            const double score = ((double) values[i] - max_logit) / temperature;
            if (score + MAX_NOISE <= best.perturbed) continue;
            const double perturbed = score + gumbel_noise(random_bits(draw_seed, offset + first + i));
            if (perturbed > best.perturbed) best = {offset + first + i, perturbed};
        }
    });
    return best;
}

}  // namespace
