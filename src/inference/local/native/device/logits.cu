// Samples on the CUDA device that has the logits: only tokens are copied back, not rows of the vocabulary.
//
// It is compiled into ggml's CUDA backend (the recipe is in `src/setup/backends.mjs`). llama.cpp fetches the logits of each
// step; where a chooser is armed, they stay on the device (`lookout_keeps_logits`). Requests for their rows are queued on the
// stream of the step. The token is the one that `kernels/logits.cpp` chooses from the same logits. Where rounding could make a
// difference, or a buffer is too small, the answer is `unsure`: the row is fetched and the CPU samples.
//
// Logits are compared as integer keys (`key_of`), because ggml compiles with -use_fast_math. Sums are in f64, or in fixed
// point where atomics add in varying order.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using u64 = unsigned long long;

// Smaller sizes, for a test without a GPU.
#ifdef LOOKOUT_SMALL
constexpr int THREADS = 64;
/** Thread blocks per row. */
constexpr int PARTS = 3;
/** Maximum logits of the bin in which a nucleus ends. */
constexpr int BIN_CAPACITY = 64;
#else
constexpr int THREADS = 256;
constexpr int PARTS = 32;
constexpr int BIN_CAPACITY = 4096;
#endif

constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
/** Maximum k of a top-k list. */
constexpr int MAX_LIST = 64;
/** Tokens per word of a mask. */
constexpr int WORD_BITS = 32;

/** Tokens whose logit is this far below the maximum are never in the nucleus. */
constexpr float NEGLIGIBLE = 30;
/** Groups of the histogram's bins, one bin for each thread of a warp. */
constexpr int BIN_GROUPS = 32;
constexpr int BINS = BIN_GROUPS * WARP;
/** A probability mass of 1 in fixed point. That of a million tokens fits into 64 bits. */
constexpr double UNIT = 17592186044416.0;
/** A nucleus is unsure if this fraction of the mass would change it: more than the rounding errors. */
constexpr double MASS_MARGIN = 1e-8;

/** Upper bound of `gumbel_noise`. */
constexpr double MAX_NOISE = 23;
/** More than the rounding errors of the f32 scores. */
constexpr float SLACK = 0.01f;
/** A draw is unsure if the best token leads by less: more than the rounding errors of f64. */
constexpr double LEAD_MARGIN = 1e-9;
constexpr float LOG2_E = 1.4426950408889634f;
/** exp() of anything smaller changes no sum over a vocabulary whose largest term is exp(0). */
constexpr double MIN_EXPONENT = -45;

enum Sampling { NONE, ARGMAX, SAMPLE, TOP_K };

/** A sampling request for a row. */
struct Ask {
    int32_t row;
    Sampling kind;
    /** Index of its mask; -1 if all tokens are allowed. */
    int32_t mask;
    int32_t first_penalty, end_penalty;
    /** Index of the copy of the row with penalties applied; -1 without penalties. */
    int32_t copy;
    uint32_t draw_seed;
    int32_t has_nucleus;
    int32_t has_sum;
    double temperature;
    double top_p;
};

struct Penalty {
    double amount;
    int32_t token;
    int32_t unused;
};

/** A top-k list of a row, for one of the asks. */
struct TopKQuery {
    int32_t ask;
    int32_t most;
    /** Whether penalties are ignored. */
    int32_t is_raw;
    int32_t unused;
};

struct WantedLogit {
    int32_t row;
    int32_t token;
};

/** Argmax of a part of a row with penalties and without (see `packed`), and the former's logit without penalties. */
struct PartArgmax {
    u64 chosen;
    u64 raw;
    float logit;
    int32_t unused;
};

/** Gumbel-max draw of a part of a row: the token with the largest perturbed logit, and the second largest one. */
struct PartSample {
    double perturbed;
    double second;
    int32_t token;
    float logit;
};

/** The cutoff of a nucleus. */
struct Cutoff {
    u64 above;
    u64 total;
    int32_t bin;
    /** Key of the smallest logit in the nucleus. */
    uint32_t min_key;
    int32_t is_unsure;
    int32_t unused;
};

struct TopKEntry {
    u64 chosen;
    float logit;
    int32_t unused;
};

/** The kernels' arguments. */
struct Work {
    const float * logits;
    int32_t vocabulary;
    /** Words per mask. */
    int32_t words;
    /** Tokens of a part; a multiple of WORD_BITS. */
    int32_t width;
    int32_t wanted_count;
    const Ask * asks;
    const TopKQuery * top_k_queries;
    const Penalty * penalties;
    const WantedLogit * wanted;
    const uint32_t * masks;
    // Scratch space.
    float * copies;
    u64 * masses;
    uint32_t * inside_count;
    uint32_t * inside_keys;
    u64 * inside_masses;
    u64 * candidates;
    // Results.
    PartArgmax * bests;
    double * sums;
    Cutoff * cutoffs;
    PartSample * drawn;
    TopKEntry * listed;
    float * wanted_logits;
};

/** An integer that orders like the logit. Equal logits have equal keys; a NaN has 0. */
__device__ inline uint32_t key_of(float logit) {
    const uint32_t bits = __float_as_uint(logit);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0;
    if (magnitude == 0) return 0x80000000u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/** The key of minus infinity: a token with no larger key is never chosen. */
constexpr uint32_t NO_KEY = 0x007fffffu;
constexpr uint32_t INFINITE_KEY = 0xff800000u;

__host__ __device__ inline uint32_t bits_of_key(uint32_t key) {
    return (key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key;
}

__device__ inline float device_logit_of(uint32_t key) { return __uint_as_float(bits_of_key(key)); }

float logit_of(uint32_t key) {
    const uint32_t bits = bits_of_key(key);
    float logit;
    memcpy(&logit, &bits, sizeof(logit));
    return logit;
}

/** Key and token in one integer: larger for a larger logit, then for the lower token; 0 for tokens that are never chosen. */
__device__ inline u64 packed(uint32_t key, int32_t token) {
    return key <= NO_KEY ? 0 : (u64) key << 32 | (uint32_t) ~token;
}

__host__ __device__ inline uint32_t key_in(u64 best) { return (uint32_t) (best >> 32); }
__host__ __device__ inline int32_t token_in(u64 best) { return (int32_t) ~(uint32_t) best; }

/** A thread block's part of a row. */
struct Part {
    const Ask & ask;
    const float * raw;
    /** With penalties. */
    const float * chosen;
    const uint32_t * mask;
    int32_t from;
    int32_t end;

    __device__ Part(const Work & work, int32_t index)
        : ask(work.asks[index]),
          raw(work.logits + (int64_t) ask.row * work.vocabulary),
          chosen(ask.copy < 0 ? raw : work.copies + (int64_t) ask.copy * work.vocabulary),
          mask(ask.mask < 0 ? nullptr : work.masks + (int64_t) ask.mask * work.words),
          from(min((int32_t) blockIdx.x * work.width, work.vocabulary)),
          end(min(from + work.width, work.vocabulary)) {}

    __device__ bool allows(int32_t token) const {
        return mask == nullptr || (mask[token / WORD_BITS] >> (token % WORD_BITS) & 1) != 0;
    }

    /** Calls `use(token)` for this thread's allowed tokens. */
    template <typename Use> __device__ void each(Use use) const {
        for (int32_t token = from + (int32_t) threadIdx.x; token < end; token += THREADS) {
            if (allows(token)) use(token);
        }
    }
};

__device__ inline u64 max_u64(u64 a, u64 b) { return a > b ? a : b; }

__device__ u64 block_max(u64 own) {
    __shared__ u64 found[WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) own = max_u64(own, __shfl_xor_sync(0xffffffffu, own, step));
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = own;
    __syncthreads();
    u64 best = found[0];
    for (int warp = 1; warp < WARPS; warp++) best = max_u64(best, found[warp]);
    __syncthreads();
    return best;
}

__device__ u64 block_sum(u64 own) {
    __shared__ u64 found[WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) own += __shfl_xor_sync(0xffffffffu, own, step);
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = own;
    __syncthreads();
    u64 sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += found[warp];
    __syncthreads();
    return sum;
}

/** Applies penalties and computes the argmax of each part. */
__global__ void __launch_bounds__(THREADS) argmax_parts(const Work work) {
    const Part part(work, blockIdx.y);
    const Ask & ask = part.ask;
    if (ask.copy >= 0) {
        float * copy = work.copies + (int64_t) ask.copy * work.vocabulary;
        for (int32_t token = part.from + (int32_t) threadIdx.x; token < part.end; token += THREADS) {
            copy[token] = part.raw[token];
        }
        __syncthreads();
        for (int32_t at = ask.first_penalty + (int32_t) threadIdx.x; at < ask.end_penalty; at += THREADS) {
            const Penalty & penalty = work.penalties[at];
            if (penalty.token < part.from || penalty.token >= part.end) continue;
            copy[penalty.token] = (float) ((double) part.raw[penalty.token] - penalty.amount);
        }
        __syncthreads();
    }
    u64 chosen = 0;
    part.each([&](int32_t token) { chosen = max_u64(chosen, packed(key_of(part.chosen[token]), token)); });
    chosen = block_max(chosen);
    u64 raw = chosen;
    if (ask.copy >= 0) {
        raw = 0;
        part.each([&](int32_t token) { raw = max_u64(raw, packed(key_of(part.raw[token]), token)); });
        raw = block_max(raw);
    }
    if (threadIdx.x != 0) return;
    PartArgmax & best = work.bests[blockIdx.y * PARTS + blockIdx.x];
    best.chosen = chosen;
    best.raw = raw;
    best.logit = chosen == 0 ? 0 : part.raw[token_in(chosen)];
}

/** The maximum of all parts. */
__device__ inline float row_max(const Work & work, int32_t ask, bool is_raw) {
    u64 best = 0;
    for (int at = 0; at < PARTS; at++) {
        const PartArgmax & found = work.bests[ask * PARTS + at];
        best = max_u64(best, is_raw ? found.raw : found.chosen);
    }
    return device_logit_of(best == 0 ? NO_KEY : key_in(best));
}

/** Whether a logit may be in the nucleus. Without a finite maximum, there is no nucleus. */
__device__ inline bool is_in_range(float logit, float max_logit) {
    return (__float_as_uint(max_logit) & 0x7fffffffu) != 0x7f800000u && logit >= max_logit - NEGLIGIBLE;
}

/** For logits in range. */
__device__ inline int bin_of(float logit, float max_logit) {
    return min(BINS - 1, (int) ((max_logit - logit) * (BINS / NEGLIGIBLE)));
}

__device__ inline u64 fixed_point_mass(float logit, float max_logit) {
    return (u64) (exp((double) logit - max_logit) * UNIT + 0.5);
}

/** Sums exponentials: over all logits without penalties, and as a histogram for the nucleus. */
__global__ void __launch_bounds__(THREADS) sum_exp_parts(const Work work) {
    __shared__ u64 masses[BINS];
    __shared__ double sums[THREADS];
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    if (part.ask.has_nucleus != 0) {
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS) masses[bin] = 0;
        __syncthreads();
        const float max_logit = row_max(work, index, false);
        part.each([&](int32_t token) {
            const float logit = part.chosen[token];
            if (is_in_range(logit, max_logit)) atomicAdd(&masses[bin_of(logit, max_logit)], fixed_point_mass(logit, max_logit));
        });
        __syncthreads();
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
            if (masses[bin] != 0) atomicAdd(&work.masses[(int64_t) index * BINS + bin], masses[bin]);
        }
    }
    if (part.ask.has_sum == 0) return;
    const float max_logit = row_max(work, index, true);
    double sum = 0;
    part.each([&](int32_t token) {
        const double difference = (double) part.raw[token] - max_logit;
        // False for a NaN, which makes the sum NaN.
        if (difference <= MIN_EXPONENT) return;
        sum += exp(difference);
    });
    sums[threadIdx.x] = sum;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int) threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) work.sums[index * PARTS + blockIdx.x] = sums[0];
}

/** Finds the bin in which the nucleus ends, and collects its logits. */
__global__ void __launch_bounds__(THREADS) collect_cutoff_bin(const Work work) {
    __shared__ u64 groups[BIN_GROUPS];
    __shared__ int found;
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    if (part.ask.has_nucleus == 0) return;
    const u64 * masses = work.masses + (int64_t) index * BINS;
    if (threadIdx.x < BIN_GROUPS) {
        u64 sum = 0;
        for (int at = 0; at < WARP; at++) sum += masses[threadIdx.x * WARP + at];
        groups[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 total = 0;
        for (int group = 0; group < BIN_GROUPS; group++) total += groups[group];
        const double needed = part.ask.top_p * (double) total;
        u64 above = 0;
        int group = 0;
        while (group < BIN_GROUPS - 1 && (double) (above + groups[group]) < needed) above += groups[group++];
        int bin = group * WARP;
        while (bin < group * WARP + WARP - 1 && (double) (above + masses[bin]) < needed) above += masses[bin++];
        found = bin;
        if (blockIdx.x == 0) {
            Cutoff & cutoff = work.cutoffs[index];
            cutoff.above = above;
            cutoff.total = total;
            cutoff.bin = bin;
        }
    }
    __syncthreads();
    const float max_logit = row_max(work, index, false);
    part.each([&](int32_t token) {
        const float logit = part.chosen[token];
        if (!is_in_range(logit, max_logit) || bin_of(logit, max_logit) != found) return;
        const uint32_t at = atomicAdd(&work.inside_count[index], 1u);
        if (at >= BIN_CAPACITY) return;
        work.inside_keys[(int64_t) index * BIN_CAPACITY + at] = key_of(logit);
        work.inside_masses[(int64_t) index * BIN_CAPACITY + at] = fixed_point_mass(logit, max_logit);
    });
}

/** Finds the smallest logit of the nucleus, bit by bit: the largest key from which on the mass reaches top-p. */
__global__ void __launch_bounds__(THREADS) find_cutoff(const Work work) {
    const int32_t index = blockIdx.x;
    const Ask & ask = work.asks[index];
    if (ask.has_nucleus == 0) return;
    const uint32_t count = min(work.inside_count[index], (uint32_t) BIN_CAPACITY);
    const uint32_t * keys = work.inside_keys + (int64_t) index * BIN_CAPACITY;
    const u64 * masses = work.inside_masses + (int64_t) index * BIN_CAPACITY;
    Cutoff & cutoff = work.cutoffs[index];
    const u64 above = cutoff.above;
    const double needed = ask.top_p * (double) cutoff.total;
    const auto mass_from = [&](uint32_t min_key) {
        u64 mass = 0;
        for (uint32_t at = threadIdx.x; at < count; at += THREADS) {
            if (keys[at] >= min_key) mass += masses[at];
        }
        return above + block_sum(mass);
    };
    uint32_t min_key = 0;
    u64 reached = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t tried = min_key | 1u << bit;
        const u64 mass = mass_from(tried);
        if (mass == above || (double) mass < needed) continue;
        min_key = tried;
        reached = mass;
    }
    const u64 before = mass_from(min_key + 1);
    if (threadIdx.x != 0) return;
    const double margin = MASS_MARGIN * (double) cutoff.total;
    cutoff.min_key = min_key;
    cutoff.is_unsure = work.inside_count[index] > BIN_CAPACITY || reached == 0 || (double) reached - needed < margin ||
                       // The likeliest token is always in.
                       (before > 0 && needed - (double) before < margin);
}

/** MurmurHash3 fmix32. */
__device__ inline uint32_t fmix32(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
    return bits ^ (bits >> 16);
}

/** Standard Gumbel noise: -ln(-ln u). */
__device__ inline double gumbel_noise(uint32_t bits) { return -log(-log((bits + 0.5) / 4294967296.0)); }

/** Whether a token's noise may exceed its deficit: see `may_exceed` in `kernels/gumbel-noise.h`. */
__device__ inline bool may_exceed(uint32_t bits, float deficit) {
    const float power = fmaxf(-126.0f, fminf(0.0f, (SLACK - deficit) * LOG2_E));
    const float bound = __uint_as_float((uint32_t) ((power + 127.0f) * 8388608.0f));
    return (float) (~bits >> 1) * (1.0f / 2147483648.0f) <= bound * 1.001f;
}

/** Samples a token of each part with the Gumbel-max trick. */
__global__ void __launch_bounds__(THREADS) sample_parts(const Work work) {
    __shared__ PartSample drawn[THREADS];
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    const Ask & ask = part.ask;
    if (ask.kind != SAMPLE) return;
    const float max_logit = row_max(work, index, false);
    const uint32_t min_key = ask.has_nucleus != 0 ? max(work.cutoffs[index].min_key, NO_KEY + 1) : NO_KEY + 1;
    const double none = -1e300;
    const float inverse = (float) (1 / ask.temperature);
    PartSample own{none, none, -1, 0};
    part.each([&](int32_t token) {
        const float logit = part.chosen[token];
        if (key_of(logit) < min_key) return;
        const uint32_t bits = fmix32(ask.draw_seed ^ (uint32_t) (token + 1) * 0x9e3779b1u);
        // Most tokens cannot win with any noise, nor most others with theirs.
        if (!may_exceed(bits, (float) own.perturbed - (logit - max_logit) * inverse)) return;
        const double score = ((double) logit - max_logit) / ask.temperature;
        if (score + MAX_NOISE <= own.perturbed) return;
        const double perturbed = score + gumbel_noise(bits);
        if (perturbed > own.perturbed) {
            own.second = own.perturbed;
            own.perturbed = perturbed;
            own.token = token;
        } else if (perturbed > own.second) {
            own.second = perturbed;
        }
    });
    drawn[threadIdx.x] = own;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int) threadIdx.x >= step) continue;
        PartSample & one = drawn[threadIdx.x];
        const PartSample & other = drawn[threadIdx.x + step];
        const double lower = fmin(one.perturbed, other.perturbed);
        const double second = fmax(lower, fmax(one.second, other.second));
        if (other.perturbed > one.perturbed) one = other;
        one.second = second;
    }
    if (threadIdx.x != 0) return;
    PartSample & best = drawn[0];
    if (best.token >= 0) best.logit = part.raw[best.token];
    work.drawn[index * PARTS + blockIdx.x] = best;
}

/** Writes the k largest of `item(0 .. count - 1)` in descending order, padded with 0. */
template <typename Item> __device__ void top_k(int32_t count, Item item, int32_t most, u64 * listed) {
    const auto next = [&](u64 below) {
        u64 best = 0;
        for (int32_t at = threadIdx.x; at < count; at += THREADS) {
            const u64 one = item(at);
            if (one < below) best = max_u64(best, one);
        }
        return best;
    };
    u64 own = next(~0ull);
    for (int32_t place = 0; place < most; place++) {
        const u64 best = block_max(own);
        if (threadIdx.x == 0) listed[place] = best;
        if (best != 0 && own == best) own = next(best);
    }
}

/** Top-k of each part. */
__global__ void __launch_bounds__(THREADS) top_k_parts(const Work work) {
    const TopKQuery & top_k_query = work.top_k_queries[blockIdx.y];
    const Part part(work, top_k_query.ask);
    const float * logits = top_k_query.is_raw != 0 ? part.raw : part.chosen;
    const auto item = [&](int32_t at) {
        const int32_t token = part.from + at;
        return part.allows(token) ? packed(key_of(logits[token]), token) : 0;
    };
    u64 * listed = work.candidates + ((int64_t) blockIdx.y * PARTS + blockIdx.x) * MAX_LIST;
    top_k(part.end - part.from, item, top_k_query.most, listed);
}

/** Merges the top-k lists of all parts. */
__global__ void __launch_bounds__(THREADS) merge_top_k(const Work work) {
    __shared__ u64 listed[MAX_LIST];
    const TopKQuery & top_k_query = work.top_k_queries[blockIdx.x];
    const u64 * candidates = work.candidates + (int64_t) blockIdx.x * PARTS * MAX_LIST;
    const int32_t most = top_k_query.most;
    const auto item = [&](int32_t at) { return candidates[at / most * MAX_LIST + at % most]; };
    top_k(most * PARTS, item, most, listed);
    __syncthreads();
    const float * raw = work.logits + (int64_t) work.asks[top_k_query.ask].row * work.vocabulary;
    for (int32_t at = threadIdx.x; at < most; at += THREADS) {
        TopKEntry & out = work.listed[blockIdx.x * MAX_LIST + at];
        out.chosen = listed[at];
        out.logit = listed[at] == 0 ? 0 : raw[token_in(listed[at])];
    }
}

__global__ void __launch_bounds__(THREADS) gather_logits(const Work work) {
    const int32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= work.wanted_count) return;
    const WantedLogit & wanted = work.wanted[at];
    work.wanted_logits[at] = work.logits[(int64_t) wanted.row * work.vocabulary + wanted.token];
}

/** A growing buffer in device memory or in pinned host memory. */
class DeviceBuffer {
public:
    explicit DeviceBuffer(bool is_host) : is_host(is_host) {}
    ~DeviceBuffer() { release(); }

    /** @return null if memory is exhausted. The contents are lost. */
    char * reserve(size_t bytes) {
        if (bytes <= size) return data;
        release();
        void * found = nullptr;
        const size_t wanted = bytes + bytes / 2;
        if ((is_host ? cudaMallocHost(&found, wanted) : cudaMalloc(&found, wanted)) != cudaSuccess) {
            cudaGetLastError();
            return nullptr;
        }
        data = (char *) found;
        size = wanted;
        return data;
    }

private:
    const bool is_host;
    char * data = nullptr;
    size_t size = 0;

    void release() {
        if (data != nullptr) is_host ? cudaFreeHost(data) : cudaFree(data);
        data = nullptr;
        size = 0;
    }
};

/** Lays out arrays in one buffer, aligned to 256 bytes. */
class Layout {
public:
    template <typename T> size_t add(size_t count) {
        const size_t offset = bytes;
        bytes += (count * sizeof(T) + 255) / 256 * 256;
        return offset;
    }
    size_t bytes = 0;
};

/** Numbers per ask. */
constexpr int ASK_NUMBERS = 10;
/** Numbers per answer: six, then a list of MAX_LIST tokens with two logits each, and one of MAX_LIST with one logit each. */
constexpr int ANSWER_NUMBERS = 6 + 3 * MAX_LIST + 2 * MAX_LIST;

/** Samples from the logits of one context. Not thread-safe. */
struct Chooser {
    const int32_t vocabulary;
    /** Rows that the next fetch must have to be kept; 0 for none. */
    int32_t expected = 0;
    /** Rows that were kept. */
    int32_t rows = 0;
    const float * logits = nullptr;
    float * host = nullptr;
    int device = 0;
    cudaStream_t stream = nullptr;

    DeviceBuffer upload{true}, uploaded{false}, space{false}, copies{false}, result{false}, results{true};
    /** Pending asks. */
    std::vector<Ask> asks;
    std::vector<TopKQuery> top_k_queries;
    /** By ask: indices of the top-k lists for its draw and for its ranking; -1 for none. */
    std::vector<int32_t> choice_listing, rank_listing;
    size_t wanted_count = 0;
    size_t bests_at = 0, sums_at = 0, cutoffs_at = 0, drawn_at = 0, listed_at = 0, wanted_at = 0;
    const char * found = nullptr;
    bool is_pending = false;

    explicit Chooser(int32_t vocabulary) : vocabulary(vocabulary) {}

    bool ask(int32_t count, const double * numbers, const int32_t * tokens, const double * amounts, int32_t penalty_count,
             const uint32_t * masks, int32_t mask_count, const int32_t * wanted_pairs, int32_t pair_count);
    bool answer(double * answers, float * wanted_logits);
    void write(int32_t index, double * answer) const;
};

Chooser * armed = nullptr;

bool launch(void (*kernel)(Work), unsigned x, unsigned y, cudaStream_t stream, const Work & work) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(x, y, 1);
    config.blockDim = dim3(THREADS, 1, 1);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, work) == cudaSuccess;
}

bool Chooser::ask(int32_t count, const double * numbers, const int32_t * tokens, const double * amounts, int32_t penalty_count,
                  const uint32_t * masks, int32_t mask_count, const int32_t * wanted_pairs, int32_t pair_count) {
    found = nullptr;
    if (rows == 0 || count < 0 || cudaSetDevice(device) != cudaSuccess) return false;
    asks.clear();
    top_k_queries.clear();
    choice_listing.assign(count, -1);
    rank_listing.assign(count, -1);
    int32_t copy_count = 0;
    bool sums_exp = false, has_nucleus = false, samples = false;
    for (int32_t index = 0; index < count; index++) {
        const double * n = numbers + (size_t) index * ASK_NUMBERS;
        Ask one{};
        one.row = (int32_t) n[0];
        one.kind = (Sampling) (int) n[1];
        one.mask = (int32_t) n[2];
        one.first_penalty = (int32_t) n[3];
        one.end_penalty = (int32_t) n[4];
        one.temperature = n[5];
        one.top_p = n[6];
        one.draw_seed = (uint32_t) n[7];
        const int32_t most = (int32_t) n[8], ranked = (int32_t) n[9];
        if (one.row < 0 || one.row >= rows || one.mask >= mask_count || most > MAX_LIST || ranked > MAX_LIST) return false;
        one.copy = one.end_penalty > one.first_penalty ? copy_count++ : -1;
        one.has_nucleus = one.kind == SAMPLE && one.top_p < 1;
        one.has_sum = ranked >= 0;
        sums_exp = sums_exp || one.has_nucleus || one.has_sum;
        has_nucleus = has_nucleus || one.has_nucleus;
        samples = samples || one.kind == SAMPLE;
        const bool shares = one.kind == TOP_K && one.copy < 0;
        if (one.kind == TOP_K) {
            choice_listing[index] = (int32_t) top_k_queries.size();
            top_k_queries.push_back({index, shares ? std::max(most, ranked) : most, 0, 0});
        }
        if (ranked > 0) {
            rank_listing[index] = shares ? choice_listing[index] : (int32_t) top_k_queries.size();
            if (!shares) top_k_queries.push_back({index, ranked, 1, 0});
        }
        asks.push_back(one);
    }
    wanted_count = pair_count;
    const int32_t words = (vocabulary + WORD_BITS - 1) / WORD_BITS;

    Layout in;
    const size_t asks_at = in.add<Ask>(count);
    const size_t listings_at = in.add<TopKQuery>(top_k_queries.size());
    const size_t penalties_at = in.add<Penalty>(penalty_count);
    const size_t pairs_at = in.add<WantedLogit>(pair_count);
    const size_t masks_at = in.add<uint32_t>((size_t) mask_count * words);
    Layout between;
    const size_t masses_at = between.add<u64>(has_nucleus ? (size_t) count * BINS : 0);
    const size_t inside_count_at = between.add<uint32_t>(has_nucleus ? count : 0);
    const size_t cleared = between.bytes;
    const size_t inside_keys_at = between.add<uint32_t>(has_nucleus ? (size_t) count * BIN_CAPACITY : 0);
    const size_t inside_masses_at = between.add<u64>(has_nucleus ? (size_t) count * BIN_CAPACITY : 0);
    const size_t candidates_at = between.add<u64>(top_k_queries.size() * PARTS * MAX_LIST);
    Layout out;
    bests_at = out.add<PartArgmax>((size_t) count * PARTS);
    sums_at = out.add<double>((size_t) count * PARTS);
    cutoffs_at = out.add<Cutoff>(count);
    drawn_at = out.add<PartSample>((size_t) count * PARTS);
    listed_at = out.add<TopKEntry>(top_k_queries.size() * MAX_LIST);
    wanted_at = out.add<float>(pair_count);

    // The device may still read the previous request.
    if (is_pending && cudaStreamSynchronize(stream) != cudaSuccess) return false;
    is_pending = true;
    char * const staged = upload.reserve(in.bytes);
    char * const input = uploaded.reserve(in.bytes);
    char * const room = space.reserve(between.bytes + 1);
    char * const copied = copies.reserve((size_t) copy_count * vocabulary * sizeof(float) + 1);
    char * const output = result.reserve(out.bytes);
    char * const fetched = results.reserve(out.bytes);
    if (!staged || !input || !room || !copied || !output || !fetched) return false;

    std::copy(asks.begin(), asks.end(), (Ask *) (staged + asks_at));
    std::copy(top_k_queries.begin(), top_k_queries.end(), (TopKQuery *) (staged + listings_at));
    auto * penalties = (Penalty *) (staged + penalties_at);
    for (int32_t at = 0; at < penalty_count; at++) penalties[at] = {amounts[at], tokens[at], 0};
    memcpy(staged + pairs_at, wanted_pairs, pair_count * sizeof(WantedLogit));
    memcpy(staged + masks_at, masks, (size_t) mask_count * words * sizeof(uint32_t));

    Work work{};
    work.logits = logits;
    work.vocabulary = vocabulary;
    work.words = words;
    work.width = ((vocabulary + PARTS - 1) / PARTS + WORD_BITS - 1) / WORD_BITS * WORD_BITS;
    work.wanted_count = pair_count;
    work.asks = (const Ask *) (input + asks_at);
    work.top_k_queries = (const TopKQuery *) (input + listings_at);
    work.penalties = (const Penalty *) (input + penalties_at);
    work.wanted = (const WantedLogit *) (input + pairs_at);
    work.masks = (const uint32_t *) (input + masks_at);
    work.copies = (float *) copied;
    work.masses = (u64 *) (room + masses_at);
    work.inside_count = (uint32_t *) (room + inside_count_at);
    work.inside_keys = (uint32_t *) (room + inside_keys_at);
    work.inside_masses = (u64 *) (room + inside_masses_at);
    work.candidates = (u64 *) (room + candidates_at);
    work.bests = (PartArgmax *) (output + bests_at);
    work.sums = (double *) (output + sums_at);
    work.cutoffs = (Cutoff *) (output + cutoffs_at);
    work.drawn = (PartSample *) (output + drawn_at);
    work.listed = (TopKEntry *) (output + listed_at);
    work.wanted_logits = (float *) (output + wanted_at);

    bool ok = cudaMemcpyAsync(input, staged, in.bytes, cudaMemcpyHostToDevice, stream) == cudaSuccess;
    if (has_nucleus) ok = ok && cudaMemsetAsync(room, 0, cleared, stream) == cudaSuccess;
    if (count > 0) ok = ok && launch(argmax_parts, PARTS, count, stream, work);
    if (sums_exp) ok = ok && launch(sum_exp_parts, PARTS, count, stream, work);
    if (has_nucleus) {
        ok = ok && launch(collect_cutoff_bin, PARTS, count, stream, work);
        ok = ok && launch(find_cutoff, count, 1, stream, work);
    }
    if (samples) ok = ok && launch(sample_parts, PARTS, count, stream, work);
    if (!top_k_queries.empty()) {
        ok = ok && launch(top_k_parts, PARTS, (unsigned) top_k_queries.size(), stream, work);
        ok = ok && launch(merge_top_k, (unsigned) top_k_queries.size(), 1, stream, work);
    }
    if (pair_count > 0) ok = ok && launch(gather_logits, (pair_count + THREADS - 1) / THREADS, 1, stream, work);
    ok = ok && cudaMemcpyAsync(fetched, output, out.bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess;
    if (ok) found = fetched;
    else cudaGetLastError();
    return ok;
}

bool Chooser::answer(double * answers, float * wanted_logits) {
    if (found == nullptr || cudaSetDevice(device) != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess) return false;
    for (size_t index = 0; index < asks.size(); index++) write((int32_t) index, answers + index * ANSWER_NUMBERS);
    memcpy(wanted_logits, found + wanted_at, wanted_count * sizeof(float));
    found = nullptr;
    is_pending = false;
    return true;
}

/** Writes an answer: whether it is unsure, the token and its logit, the log-sum-exp, and two lists. */
void Chooser::write(int32_t index, double * answer) const {
    const Ask & ask = asks[index];
    const PartArgmax * bests = (const PartArgmax *) (found + bests_at) + (size_t) index * PARTS;
    const PartArgmax * best = bests;
    u64 raw = 0;
    for (int part = 0; part < PARTS; part++) {
        if (bests[part].chosen > best->chosen) best = bests + part;
        raw = std::max(raw, bests[part].raw);
    }
    const bool has_token = best->chosen != 0;
    bool is_unsure = ask.kind != NONE && !has_token;
    int32_t token = has_token ? token_in(best->chosen) : -1;
    double logit = best->logit;
    // An infinite logit is always drawn.
    if (ask.kind == SAMPLE && has_token && key_in(best->chosen) != INFINITE_KEY) {
        const PartSample * drawn = (const PartSample *) (found + drawn_at) + (size_t) index * PARTS;
        const PartSample * first = drawn;
        for (int part = 1; part < PARTS; part++) {
            if (drawn[part].perturbed > first->perturbed) first = drawn + part;
        }
        double second = first->second;
        for (int part = 0; part < PARTS; part++) {
            if (drawn + part != first) second = std::max(second, drawn[part].perturbed);
        }
        is_unsure = first->token < 0 || first->perturbed - second < LEAD_MARGIN ||
                    (ask.has_nucleus && ((const Cutoff *) (found + cutoffs_at))[index].is_unsure);
        token = first->token;
        logit = first->logit;
    }
    double sum = std::numeric_limits<double>::quiet_NaN();
    if (ask.has_sum) {
        const double * sums = (const double *) (found + sums_at) + (size_t) index * PARTS;
        double total = 0;
        for (int part = 0; part < PARTS; part++) total += sums[part];
        sum = raw == 0 ? total : logit_of(key_in(raw)) + std::log(total);
        // Rows with NaNs are left to the CPU.
        is_unsure = is_unsure || raw == 0 || key_in(raw) == INFINITE_KEY || std::isnan(sum);
    }
    answer[0] = is_unsure;
    answer[1] = token;
    answer[2] = logit;
    answer[3] = sum;
    const auto list = [&](int32_t top_k_query, double * count, double * out, bool with_both) {
        *count = 0;
        if (top_k_query < 0) return;
        const TopKEntry * listed = (const TopKEntry *) (found + listed_at) + (size_t) top_k_query * MAX_LIST;
        for (int32_t at = 0; at < top_k_queries[top_k_query].most && listed[at].chosen != 0; at++) {
            *out++ = token_in(listed[at].chosen);
            if (with_both) *out++ = logit_of(key_in(listed[at].chosen));
            *out++ = listed[at].logit;
            ++*count;
        }
    };
    list(choice_listing[index], answer + 4, answer + 6, true);
    list(rank_listing[index], answer + 5, answer + 6 + 3 * MAX_LIST, false);
}

}  // namespace

/**
 * ggml's CUDA backend calls this before it copies a tensor to the host.
 * @return whether to skip the copy: the tensor has the logits that an armed chooser waits for.
 */
bool lookout_keeps_logits(const char * name, const void * from, void * to, size_t bytes, int device, cudaStream_t stream) {
    Chooser * const chooser = armed;
    if (chooser == nullptr || strcmp(name, "result_output") != 0) return false;
    armed = nullptr;
    if (bytes != (size_t) chooser->expected * chooser->vocabulary * sizeof(float)) return false;
    chooser->logits = (const float *) from;
    chooser->host = (float *) to;
    chooser->rows = chooser->expected;
    chooser->device = device;
    chooser->stream = stream;
    return true;
}

/** Creates a chooser for a context. @param vocabulary logits per row. */
extern "C" void * lookout_chooser_new(int32_t vocabulary) { return new Chooser(vocabulary); }

extern "C" void lookout_chooser_free(void * chooser) {
    if (armed == chooser) armed = nullptr;
    delete (Chooser *) chooser;
}

/** Call before a step: keeps the logits of its rows on the device, if they are computed in one batch. */
extern "C" void lookout_chooser_arm(void * chooser, int32_t rows) {
    armed = (Chooser *) chooser;
    armed->expected = rows;
    armed->rows = 0;
    armed->found = nullptr;
}

/** Call after launching a step. @return whether its logits were kept; otherwise llama.cpp fetched them. */
extern "C" bool lookout_chooser_keeps(void * chooser) {
    if (armed == chooser) armed = nullptr;
    return ((Chooser *) chooser)->rows > 0;
}

/**
 * Queues sampling requests after the step. Drops earlier requests without an answer.
 * @param asks ten numbers each: the row; 0 for nothing, 1 for the argmax, 2 for a draw, 3 for a top-k list; the mask or
 * -1; the first penalty and the one after the last; the temperature; top-p; the draw seed; k of the list; and k of the
 * ranking, -1 if no log-sum-exp is wanted.
 * @param tokens with penalties.
 * @param amounts subtracted from their logits.
 * @param masks a bit for each allowed token, 32 to a word.
 * @param wanted pairs of row and token whose logits are wanted.
 * @return false if it cannot be computed.
 */
extern "C" bool lookout_chooser_ask(void * chooser, int32_t count, const double * asks, const int32_t * tokens,
                                    const double * amounts, int32_t penalties, const uint32_t * masks, int32_t mask_count,
                                    const int32_t * wanted, int32_t pairs) {
    return ((Chooser *) chooser)
        ->ask(count, asks, tokens, amounts, penalties, masks, mask_count, wanted, pairs);
}

/**
 * Blocks until the answers are computed.
 * @param answers 326 numbers for each ask: 1 if the CPU must sample; the token, and its logit without penalties; the log-sum-exp;
 * the lengths of two lists; the top-k list, each token with its logit with and without penalties; and the ranking without
 * penalties. A list has room for 64.
 */
extern "C" bool lookout_chooser_answer(void * chooser, double * answers, float * wanted_logits) {
    return ((Chooser *) chooser)->answer(answers, wanted_logits);
}

/** Copies a row of logits to llama.cpp's buffer. Blocks. */
extern "C" bool lookout_chooser_fetch(void * chooser, int32_t row) {
    const Chooser & from = *(const Chooser *) chooser;
    if (row < 0 || row >= from.rows || cudaSetDevice(from.device) != cudaSuccess) return false;
    const size_t offset = (size_t) row * from.vocabulary;
    const size_t bytes = from.vocabulary * sizeof(float);
    return cudaMemcpyAsync(from.host + offset, from.logits + offset, bytes, cudaMemcpyDeviceToHost, from.stream) == cudaSuccess &&
           cudaStreamSynchronize(from.stream) == cudaSuccess;
}
