// What sampling asks of a row of logits, one for each token of the vocabulary.
//
// llama.cpp's samplers copy the whole vocabulary, with 12 bytes for each token, before they look at it. For the rows of a
// step, that takes longer than a step of a small model on a GPU (`npm run bench -- sampling`). Here, a row is read once or
// twice and nothing is copied; where a GPU computes, several threads share it. The plain versions are in
// `native/logits-operations.ts`; both give the same results.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

namespace {

/** Numbers computed side by side: a loop over them becomes a few vector instructions. Also the bits of a mask's word. */
constexpr int LANES = 32;

constexpr double LOG2_E = 1.4426950408889634;
constexpr double LN_2 = 0.6931471805599453;

/** A row of logits, and the tokens of it that may be chosen: a bit for each, or all where there is no mask. */
struct Row {
    const float * logits;
    int32_t count;
    const uint32_t * mask;

    /** Of the LANES tokens from `first` on, which is a multiple of LANES. What is after the last token means nothing. */
    uint32_t allowed(int32_t first) const { return mask == nullptr ? UINT32_MAX : mask[first / LANES]; }

    /**
     * Calls `use(first, values, bits)` for each LANES tokens of which some may be chosen. What may not is in `values`
     * as well, and after the last token they have minus infinity.
     */
    template <typename Use> void each(Use use) const {
        const int32_t whole = count / LANES * LANES;
        for (int32_t first = 0; first < whole; first += LANES) {
            if (const uint32_t bits = allowed(first)) use(first, logits + first, bits);
        }
        if (whole == count) return;
        float padded[LANES];
        std::fill(padded, padded + LANES, -INFINITY);
        memcpy(padded, logits + whole, (count - whole) * sizeof(*logits));
        if (const uint32_t bits = allowed(whole)) use(whole, padded, bits);
    }
};

bool has_bit(uint32_t bits, int i) { return (bits >> i) & 1; }

/** Threads that share a row. */
int threads = 1;
constexpr int MOST_THREADS = 16;
/** Fewer tokens are not worth a thread. */
constexpr int32_t FEWEST_TOKENS = 8192;

/** A row, cut into parts for threads. */
struct Parts {
    Row row;
    int count;
    /** Tokens of each part but the last; a multiple of LANES. */
    int32_t width;

    explicit Parts(const Row & row) : row(row) {
        count = std::max(1, std::min(threads, row.count / FEWEST_TOKENS));
        width = (row.count / count + LANES - 1) / LANES * LANES;
    }

    int32_t first(int part) const { return part * width; }

    Row operator[](int part) const {
        const int32_t from = first(part);
        const int32_t size = part == count - 1 ? row.count - from : width;
        return {row.logits + from, size, row.mask == nullptr ? nullptr : row.mask + from / LANES};
    }

    /** Calls `use(part)` for each of them, on threads of their own. */
    template <typename Use> void each(Use use) const {
        if (count == 1) {
            use(0);
            return;
        }
#pragma omp parallel for num_threads(count) schedule(static, 1)
        for (int part = 0; part < count; part++) use(part);
    }
};

/** The largest of the logits that may be chosen; minus infinity when none is a larger number. A NaN is never larger. */
float largest_within(const Row & row) {
    float lanes[LANES];
    std::fill(lanes, lanes + LANES, -INFINITY);
    row.each([&](int32_t, const float * values, uint32_t bits) {
        if (bits == UINT32_MAX) {
            for (int i = 0; i < LANES; i++) lanes[i] = values[i] > lanes[i] ? values[i] : lanes[i];
            return;
        }
        for (int i = 0; i < LANES; i++) {
            const float value = has_bit(bits, i) ? values[i] : -INFINITY;
            lanes[i] = value > lanes[i] ? value : lanes[i];
        }
    });
    return *std::max_element(lanes, lanes + LANES);
}

/** The same on several threads. */
float largest_of(const Row & row) {
    const Parts parts(row);
    float found[MOST_THREADS];
    parts.each([&](int part) { found[part] = largest_within(parts[part]); });
    return *std::max_element(found, found + parts.count);
}

/** The lowest token that may be chosen and has this logit; -1 without one. */
int32_t first_with(const Row & row, float logit) {
    for (int32_t first = 0; first < row.count; first += LANES) {
        const int width = std::min(LANES, row.count - first);
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

bool has_larger(const float * values, float than) {
    int found = 0;
    for (int i = 0; i < LANES; i++) found |= values[i] > than;
    return found != 0;
}

/** An exponential below this share of the largest changes no sum over a vocabulary. */
constexpr double SMALLEST_LOG = -45;

/** The exponential of a number from -45 to 0, exact to 1e-15. Written so that compilers compute several at once. */
inline double exponential(double x) {
    // A power of two, and the rest: at most half of the logarithm of two.
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

/** The exponentials of the logits relative to the largest. 0 for what is negligible beside it, no number, or not allowed. */
inline void exponentials_of(const float * values, uint32_t bits, float largest, double * out) {
    // Loops of their own, and products in place of branches: else compilers compute one at a time.
    double differences[LANES];
    for (int i = 0; i < LANES; i++) {
        const double x = (double) values[i] - largest;
        differences[i] = x > SMALLEST_LOG ? x : SMALLEST_LOG;
    }
    for (int i = 0; i < LANES; i++) out[i] = exponential(differences[i]);
    for (int i = 0; i < LANES; i++) out[i] *= (double) (int32_t) (differences[i] > SMALLEST_LOG);
    if (bits == UINT32_MAX) return;
    for (int i = 0; i < LANES; i++) out[i] *= (double) (int32_t) has_bit(bits, i);
}

/** @return NaN where an allowed logit is NaN, or the largest is no number. */
double sum_within(const Row & row, float largest) {
    double lanes[LANES] = {};
    uint32_t nans = std::isinf(largest);
    row.each([&](int32_t, const float * values, uint32_t bits) {
        double exponentials[LANES];
        exponentials_of(values, bits, largest, exponentials);
        for (int i = 0; i < LANES; i++) nans |= (uint32_t) has_bit(bits, i) & (uint32_t) (values[i] != values[i]);
        for (int i = 0; i < LANES; i++) lanes[i] += exponentials[i];
    });
    if (nans != 0) return std::numeric_limits<double>::quiet_NaN();
    double sum = 0;
    for (double lane : lanes) sum += lane;
    return sum;
}

}  // namespace

/** From then on, so many threads share a row: for a computer whose processor waits for a GPU. */
extern "C" void lookout_share_rows(int32_t count) { threads = std::max(1, std::min(MOST_THREADS, (int) count)); }

/**
 * The lowest of the tokens with the largest logit.
 * @param mask a bit for each token that may be chosen, 32 to a word; all may when it is null. The same below.
 * @return -1 when no logit that may be chosen is larger than minus infinity.
 */
extern "C" int32_t lookout_likeliest(const float * logits, int32_t count, const uint32_t * mask) {
    const Parts parts({logits, count, mask});
    float most[MOST_THREADS];
    int32_t tokens[MOST_THREADS];
    parts.each([&](int part) {
        const Row row = parts[part];
        most[part] = largest_within(row);
        tokens[part] = most[part] == -INFINITY ? -1 : first_with(row, most[part]);
    });
    const int best = (int) (std::max_element(most, most + parts.count) - most);
    return tokens[best] < 0 ? -1 : parts.first(best) + tokens[best];
}

/**
 * The tokens with the largest logits, in descending order; of equal ones, the lower token first.
 * @param most how many are wanted. @param tokens room for as many.
 * @return how many there are: tokens whose logit is NaN or minus infinity are none of them.
 */
extern "C" int32_t lookout_largest(const float * logits, int32_t count, const uint32_t * mask, int32_t most, int32_t * tokens) {
    if (most < 1) return 0;
    const Row row{logits, count, mask};
    const auto precedes = [&](int32_t a, int32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); };
    int32_t found = 0;
    // A heap with the last of them at its front.
    float least = -INFINITY;
    row.each([&](int32_t first, const float * values, uint32_t bits) {
        if (!has_larger(values, least)) return;
        for (int i = 0; i < LANES; i++) {
            if (!has_bit(bits, i) || !(values[i] > least)) continue;
            if (found == most) std::pop_heap(tokens, tokens + found--, precedes);
            tokens[found++] = first + i;
            std::push_heap(tokens, tokens + found, precedes);
            if (found == most) least = logits[tokens[0]];
        }
    });
    std::sort_heap(tokens, tokens + found, precedes);
    return found;
}

/** Natural logarithm of the sum of the exponentials of the logits; NaN where one that counts is NaN. */
extern "C" double lookout_log_sum(const float * logits, int32_t count, const uint32_t * mask) {
    const Parts parts({logits, count, mask});
    const float largest = largest_of(parts.row);
    double sums[MOST_THREADS];
    parts.each([&](int part) { sums[part] = sum_within(parts[part], largest); });
    double sum = 0;
    for (int part = 0; part < parts.count; part++) sum += sums[part];
    return largest + std::log(sum);
}

namespace {

/** Tokens whose logits are so much lower than the largest have no share in a nucleus. */
constexpr float NEGLIGIBLE = 30;
constexpr int BINS = 1024;

/** Bins for logits by how much lower than the largest they are, as far as the lowest that counts. */
struct Bins {
    float largest;
    float lowest;
    float scale;

    Bins(const Row & row, float largest) : largest(largest) {
        float lanes[LANES];
        std::fill(lanes, lanes + LANES, largest);
        const float negligible = largest - NEGLIGIBLE;
        row.each([&](int32_t, const float * values, uint32_t bits) {
            for (int i = 0; i < LANES; i++) {
                const float value = has_bit(bits, i) && values[i] >= negligible ? values[i] : largest;
                lanes[i] = value < lanes[i] ? value : lanes[i];
            }
        });
        lowest = *std::min_element(lanes, lanes + LANES);
        scale = BINS / std::max(largest - lowest, 1e-6f);
    }

    int of(float logit) const { return std::min(BINS - 1, (int) ((largest - logit) * scale)); }
};

}  // namespace

/**
 * The least logit of the nucleus: of the likeliest tokens that together have a share of the probability.
 * @param share below 1. The likeliest token is always in.
 * @return NaN where no logit is a number.
 */
extern "C" float lookout_nucleus(const float * logits, int32_t count, const uint32_t * mask, double share) {
    const Row row{logits, count, mask};
    const float largest = largest_of(row);
    if (std::isinf(largest)) return largest > 0 ? largest : std::numeric_limits<float>::quiet_NaN();
    const Bins bins(row, largest);
    const Parts parts(row);
    std::vector<double> masses(parts.count * BINS);
    parts.each([&](int part) {
        double * own = masses.data() + part * BINS;
        parts[part].each([&](int32_t, const float * values, uint32_t bits) {
            double exponentials[LANES];
            exponentials_of(values, bits, largest, exponentials);
            for (int i = 0; i < LANES; i++) {
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
    while (bin < BINS - 1 && (mass + masses[bin]) / total < share) mass += masses[bin++];
    // The nucleus ends in this bin.
    std::vector<float> inside;
    row.each([&](int32_t, const float * values, uint32_t bits) {
        for (int i = 0; i < LANES; i++) {
            if (has_bit(bits, i) && values[i] >= bins.lowest && bins.of(values[i]) == bin) inside.push_back(values[i]);
        }
    });
    // In halves, the larger logits first: it may hold most of a row whose logits are much alike.
    auto from = inside.begin(), to = inside.end();
    while (to - from > 1) {
        const auto middle = from + (to - from) / 2;
        std::nth_element(from, middle, to, std::greater<float>());
        double upper = 0;
        for (auto logit = from; logit != middle; logit++) upper += exponential((double) *logit - largest);
        if ((mass + upper) / total >= share) {
            to = middle;
        } else {
            mass += upper;
            from = middle;
        }
    }
    return *from;
}

namespace {

/** A number of 32 bits in which each of the given one's changes about half. */
inline uint32_t mixed(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x85ebca6b;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35;
    return bits ^ (bits >> 16);
}

/** Random bits of a token. */
inline uint32_t bits_of(uint32_t place, int32_t token) { return mixed(place ^ ((uint32_t) (token + 1) * 0x9e3779b1u)); }

/** Gumbel noise. */
inline double noise_of(uint32_t bits) { return -std::log(-std::log((bits + 0.5) / 4294967296.0)); }

/** Noise is never larger. */
constexpr double MOST_NOISE = 23;
/** More than what sums of f32 are rounded by. */
constexpr float SLACK = 0.01f;

/**
 * Whether a token's noise may be larger than what it lacks. With u = (bits + .5) / 2^32, noise above x means u above
 * exp(-exp(-x)), which is at least 1 - exp(-x). So 1 - u must be below exp(-x), for which a line between two powers of two
 * is a bound.
 */
inline bool may_exceed(uint32_t bits, float lacks) {
    const float power = std::max(-126.0f, std::min(0.0f, (SLACK - lacks) * (float) LOG2_E));
    const int32_t line = (int32_t) ((power + 127.0f) * 8388608.0f);
    float bound;
    memcpy(&bound, &line, sizeof(bound));
    return (float) (int32_t) (~bits >> 1) * (1.0f / 2147483648.0f) <= bound * 1.001f;
}

/** A token, and its logit with noise. */
struct Drawn {
    int32_t token;
    double noisy;
};

/** @param offset number of the row's first token. @param largest logit of all parts. */
Drawn draw_within(const Row & row, int32_t offset, float largest, double temperature, double least, uint32_t place) {
    Drawn best{-1, -INFINITY};
    const float inverse = (float) (1 / temperature);
    row.each([&](int32_t first, const float * values, uint32_t bits) {
        int found = 0;
        for (int i = 0; i < LANES; i++) {
            const float score = (values[i] - largest) * inverse;
            found |= may_exceed(bits_of(place, offset + first + i), (float) best.noisy - score) ? 1 : 0;
        }
        if (found == 0) return;
        for (int i = 0; i < LANES; i++) {
            if (!has_bit(bits, i) || !(values[i] >= least)) continue;
            const double score = ((double) values[i] - largest) / temperature;
            if (score + MOST_NOISE <= best.noisy) continue;
            const double noisy = score + noise_of(bits_of(place, offset + first + i));
            if (noisy > best.noisy) best = {offset + first + i, noisy};
        }
    });
    return best;
}

}  // namespace

/**
 * Draws a token: the one whose logit, divided by the temperature, and noise add up to the most. The noise of a token depends
 * on the place and on the token alone.
 * @param temperature above 0. @param least the least logit that may be drawn. @param place random bits of this draw.
 * @return -1 when no logit that may be drawn is larger than minus infinity.
 */
extern "C" int32_t lookout_draw(const float * logits, int32_t count, const uint32_t * mask, double temperature, double least,
                                uint32_t place) {
    const Parts parts({logits, count, mask});
    const float largest = largest_of(parts.row);
    if (std::isinf(largest)) return largest > 0 ? first_with(parts.row, largest) : -1;
    Drawn drawn[MOST_THREADS];
    parts.each([&](int part) { drawn[part] = draw_within(parts[part], parts.first(part), largest, temperature, least, place); });
    // Of equal ones, the lower token.
    Drawn best = drawn[0];
    for (int part = 1; part < parts.count; part++) {
        if (drawn[part].noisy > best.noisy) best = drawn[part];
    }
    return best.token;
}
