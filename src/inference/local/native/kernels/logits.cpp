// Sampling operations on a row of logits: argmax, top-k, log-sum-exp, top-p and draws with Gumbel noise.
//
// llama.cpp's samplers first copy the whole vocabulary, with 12 bytes per token. For the rows of a step, that takes longer than
// a step of a small model on a GPU (`npm run bench -- sampling`). Here, a row is read once or twice and nothing is copied; where
// a GPU computes, several threads divide it. `native/logits-operations.ts` has plain versions with the same results.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

namespace {

/** Tokens per chunk: loops over a chunk are vectorised by the compiler. Also the bits of a word of the mask. */
constexpr int CHUNK = 32;

constexpr double LOG2_E = 1.4426950408889634;
constexpr double LN_2 = 0.6931471805599453;

/** A row of logits and a mask of the allowed tokens: a bit for each, or null for all. */
struct Row {
    const float * logits;
    int32_t count;
    const uint32_t * mask;

    /** Mask bits of the chunk at `first`, a multiple of CHUNK. Bits after the last token are undefined. */
    uint32_t allowed(int32_t first) const { return mask == nullptr ? UINT32_MAX : mask[first / CHUNK]; }

    /**
     * Calls `use(first, values, bits)` for each chunk with allowed tokens. `values` contains the others, too, and minus infinity
     * after the last token.
     */
    template <typename Use> void each(Use use) const {
        const int32_t whole = count / CHUNK * CHUNK;
        for (int32_t first = 0; first < whole; first += CHUNK) {
            if (const uint32_t bits = allowed(first)) use(first, logits + first, bits);
        }
        if (whole == count) return;
        float padded[CHUNK];
        std::fill(padded, padded + CHUNK, -INFINITY);
        memcpy(padded, logits + whole, (count - whole) * sizeof(*logits));
        if (const uint32_t bits = allowed(whole)) use(whole, padded, bits);
    }
};

bool has_bit(uint32_t bits, int i) { return (bits >> i) & 1; }

/** Threads per row. */
int threads = 1;
constexpr int MAX_THREADS = 16;
/** Minimum tokens per thread. */
constexpr int32_t MIN_TOKENS = 8192;

/** A row, partitioned for threads. */
struct Parts {
    Row row;
    int count;
    /** Tokens of each part but the last; a multiple of CHUNK. */
    int32_t width;

    explicit Parts(const Row & row) : row(row) {
        count = std::max(1, std::min(threads, row.count / MIN_TOKENS));
        width = (row.count / count + CHUNK - 1) / CHUNK * CHUNK;
    }

    int32_t first(int part) const { return part * width; }

    Row operator[](int part) const {
        const int32_t from = first(part);
        const int32_t size = part == count - 1 ? row.count - from : width;
        return {row.logits + from, size, row.mask == nullptr ? nullptr : row.mask + from / CHUNK};
    }

    /** Calls `use(part)` for each part, in parallel. */
    template <typename Use> void each(Use use) const {
        if (count == 1) {
            use(0);
            return;
        }
#pragma omp parallel for num_threads(count) schedule(static, 1)
        for (int part = 0; part < count; part++) use(part);
    }
};

/** The maximum of the allowed logits; minus infinity when there is none. NaNs are ignored. */
float max_of_part(const Row & row) {
    float lanes[CHUNK];
    std::fill(lanes, lanes + CHUNK, -INFINITY);
    row.each([&](int32_t, const float * values, uint32_t bits) {
        if (bits == UINT32_MAX) {
            for (int i = 0; i < CHUNK; i++) lanes[i] = values[i] > lanes[i] ? values[i] : lanes[i];
            return;
        }
        for (int i = 0; i < CHUNK; i++) {
            const float value = has_bit(bits, i) ? values[i] : -INFINITY;
            lanes[i] = value > lanes[i] ? value : lanes[i];
        }
    });
    return *std::max_element(lanes, lanes + CHUNK);
}

/** The same for all parts of a row. */
float max_of_row(const Row & row) {
    const Parts parts(row);
    float found[MAX_THREADS];
    parts.each([&](int part) { found[part] = max_of_part(parts[part]); });
    return *std::max_element(found, found + parts.count);
}

/** The first allowed token with this logit; -1 if there is none. */
int32_t first_token_with(const Row & row, float logit) {
    for (int32_t first = 0; first < row.count; first += CHUNK) {
        const int width = std::min(CHUNK, row.count - first);
        const float * values = row.logits + first;
        int found = 0;
        for (int i = 0; i < width; i++) found |= values[i] == logit;
        if (found == 0) continue;
        const uint32_t bits = row.allowed(first);
        for (int i = 0; i < width; i++) {
            if (values[i] == logit && has_bit(bits, i)) return first + i;
        }
    }
    return -1;
}

bool any_above(const float * values, float than) {
    int found = 0;
    for (int i = 0; i < CHUNK; i++) found |= values[i] > than;
    return found != 0;
}

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

}  // namespace

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

namespace {

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
    // Of equal ones, the lower token.
    Sample best = samples[0];
    for (int part = 1; part < parts.count; part++) {
        if (samples[part].perturbed > best.perturbed) best = samples[part];
    }
    return best.token;
}
