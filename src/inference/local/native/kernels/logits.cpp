// Sampling operations on a row of logits: argmax, top-k, log-sum-exp, top-p and draws with Gumbel noise.
//
// llama.cpp's samplers first copy the whole vocabulary, with 12 bytes per token. For the rows of a step, that takes longer than
// a step of a small model on a GPU (`npm run bench -- sampling`). Here, a row is read once or twice and nothing is copied; where
// a GPU computes, several threads divide it. `native/logits-operations.ts` has plain versions with the same results.

#include "gumbel-noise.h"
#include "logit-rows.h"
#include "softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

/** Sets the threads per row: more than one where the CPU only waits for a GPU. */
extern "C" void lookout_set_row_threads(int32_t count) { threads = std::max(1, std::min(MAX_THREADS, (int) count)); }

/**
 * The token with the largest logit; of equal ones, the lowest.
 * @param mask a bit for each allowed token, 32 to a word; null for all. The same below.
 * @return -1 when no allowed logit is above minus infinity.
 */
extern "C" int32_t lookout_argmax(const float * logits, int32_t count, const uint32_t * mask) {
    const Parts parts({logits, count, mask});
    float maxima[MAX_THREADS];
    int32_t tokens[MAX_THREADS];
    parts.each([&](int part) {
        const Row row = parts[part];
        maxima[part] = max_of_part(row);
        tokens[part] = maxima[part] == -INFINITY ? -1 : first_token_with(row, maxima[part]);
    });
    const int best = (int) (std::max_element(maxima, maxima + parts.count) - maxima);
    return tokens[best] < 0 ? -1 : parts.first(best) + tokens[best];
}

namespace {

bool any_above(const float * values, float than) {
    int found = 0;
    for (int i = 0; i < CHUNK; i++) found |= values[i] > than;
    return found != 0;
}

}  // namespace

/**
 * The k tokens with the largest logits, in descending order; of equal ones, the lower token first.
 * @param tokens room for k.
 * @return how many there are: tokens whose logit is NaN or minus infinity are left out.
 */
extern "C" int32_t lookout_top_k(const float * logits, int32_t count, const uint32_t * mask, int32_t k, int32_t * tokens) {
    if (k < 1) return 0;
    const Row row{logits, count, mask};
    const auto precedes = [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
    int32_t found = 0;
    // A heap with the least of them at its front.
    float min_logit = -INFINITY;
    row.each([&](int32_t first, const float * values, uint32_t bits) {
        if (!any_above(values, min_logit)) return;
        for (int i = 0; i < CHUNK; i++) {
            if (!has_bit(bits, i) || !(values[i] > min_logit)) continue;
            if (found == k) std::pop_heap(tokens, tokens + found--, precedes);
            tokens[found++] = first + i;
            std::push_heap(tokens, tokens + found, precedes);
            if (found == k) min_logit = logits[tokens[0]];
        }
    });
    std::sort_heap(tokens, tokens + found, precedes);
    return found;
}

/** Log-sum-exp of the allowed logits; NaN where one of them is NaN. */
extern "C" double lookout_log_sum_exp(const float * logits, int32_t count, const uint32_t * mask) {
    const Parts parts({logits, count, mask});
    const float max_logit = max_of_row(parts.row);
    double sums[MAX_THREADS];
    parts.each([&](int part) { sums[part] = sum_exp_of_part(parts[part], max_logit); });
    double sum = 0;
    for (int part = 0; part < parts.count; part++) sum += sums[part];
    return max_logit + std::log(sum);
}

/**
 * The smallest logit of the nucleus (top-p): of the likeliest tokens whose probabilities add up to `top_p`.
 * @param top_p below 1. The likeliest token is always in.
 * @return NaN where no allowed logit is above minus infinity.
 */
extern "C" float lookout_top_p_cutoff(const float * logits, int32_t count, const uint32_t * mask, double top_p) {
    const Row row{logits, count, mask};
    const float max_logit = max_of_row(row);
    if (std::isinf(max_logit)) return max_logit > 0 ? max_logit : std::numeric_limits<float>::quiet_NaN();
    const Bins bins(row, max_logit);
    const Parts parts(row);
    std::vector<double> masses(parts.count * BINS);
    parts.each([&](int part) {
        double * own = masses.data() + part * BINS;
        parts[part].each([&](int32_t, const float * values, uint32_t bits) {
            double exponentials[CHUNK];
            exp_relative(values, bits, max_logit, exponentials);
            for (int i = 0; i < CHUNK; i++) {
                if (exponentials[i] > 0 && values[i] >= bins.lowest) own[bins.of(values[i])] += exponentials[i];
            }
        });
    });
    for (int part = 1; part < parts.count; part++) {
        for (int bin = 0; bin < BINS; bin++) masses[bin] += masses[part * BINS + bin];
    }
    masses.resize(BINS);
    double total = 0;
    for (double mass : masses) total += mass;
    double mass = 0;
    int bin = 0;
    while (bin < BINS - 1 && (mass + masses[bin]) / total < top_p) mass += masses[bin++];
    // The nucleus ends in this bin. Select within it.
    std::vector<float> inside;
    row.each([&](int32_t, const float * values, uint32_t bits) {
        for (int i = 0; i < CHUNK; i++) {
            if (has_bit(bits, i) && values[i] >= bins.lowest && bins.of(values[i]) == bin) inside.push_back(values[i]);
        }
    });
    // Quickselect, the larger half first: the bin may hold most of a row whose logits are nearly equal.
    auto from = inside.begin(), to = inside.end();
    while (to - from > 1) {
        const auto middle = from + (to - from) / 2;
        std::nth_element(from, middle, to, std::greater<float>());
        double upper = 0;
        for (auto logit = from; logit != middle; logit++) upper += fast_exp((double) *logit - max_logit);
        if ((mass + upper) / total >= top_p) {
            to = middle;
        } else {
            mass += upper;
            from = middle;
        }
    }
    return *from;
}

/**
 * Samples a token with the Gumbel-max trick: the argmax of logit / temperature + Gumbel noise has the softmax distribution. The
 * noise of a token depends only on `draw_seed` and the token.
 * @param temperature above 0. @param min_logit the smallest logit that may be drawn. @param draw_seed random bits of this draw.
 * @return -1 when no allowed logit is above minus infinity.
 */
extern "C" int32_t lookout_sample(const float * logits, int32_t count, const uint32_t * mask, double temperature,
                                  double min_logit, uint32_t draw_seed) {
    const Parts parts({logits, count, mask});
    const float max_logit = max_of_row(parts.row);
    if (std::isinf(max_logit)) return max_logit > 0 ? first_token_with(parts.row, max_logit) : -1;
    Sample samples[MAX_THREADS];
    parts.each([&](int part) {
        samples[part] = sample_part(parts[part], parts.first(part), max_logit, temperature, min_logit, draw_seed);
    });
    // The lower token wins a tie.
    Sample best = samples[0];
    for (int part = 1; part < parts.count; part++) {
        if (samples[part].perturbed > best.perturbed) best = samples[part];
    }
    return best.token;
}
