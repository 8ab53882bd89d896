// Chooses tokens where a CUDA device has the logits: what comes back are tokens, not rows of the vocabulary.
//
// It is compiled into ggml's CUDA backend (the recipe is in `src/setup/backends.mjs`). llama.cpp fetches the logits of each
// step; where a chooser is armed, they stay on the device (`lookout_keeps`). What is asked of their rows is computed on the
// stream of the step, behind it. A choice is the one that `kernels/choice.cpp` makes of the same logits. Where rounding could
// make a difference, or an answer needs more room than there is, it is `unsure`: the row is fetched then and the CPU chooses.
//
// Logits are compared as whole numbers (`key_of`), because ggml's flags have floats rounded carelessly; what is summed up is
// computed in f64, or in whole numbers where the order of the sum is not always the same.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using u64 = unsigned long long;

// Fewer of all, and less room, for a test without a GPU.
#ifdef LOOKOUT_SMALL
constexpr int THREADS = 64;
/** Blocks that share a row. */
constexpr int PARTS = 3;
/** Logits of one bin, at most. */
constexpr int ROOM = 64;
#else
constexpr int THREADS = 256;
constexpr int PARTS = 32;
constexpr int ROOM = 4096;
#endif

constexpr int WARP = 32;
constexpr int WARPS = THREADS / WARP;
/** Tokens of a list, at most. */
constexpr int MOST = 64;
/** Tokens of a mask's word. */
constexpr int BITS = 32;

/** Tokens whose logits are so much lower than the largest have no share in a nucleus. */
constexpr float NEGLIGIBLE = 30;
/** Into which logits are sorted by how much lower than the largest they are. */
constexpr int GROUPS = 32;
constexpr int BINS = GROUPS * WARP;
/** A mass of 1, as a whole number. That of a million tokens fits into 64 bits. */
constexpr double UNIT = 17592186044416.0;
/** A nucleus is unsure where less of the total mass would change it: more than the masses are rounded by. */
constexpr double MASS_MARGIN = 1e-8;

/** Noise is never larger. */
constexpr double MOST_NOISE = 23;
/** More than what sums of f32 are rounded by. */
constexpr float SLACK = 0.01f;
/** A draw is unsure where the best token leads by less: more than sums of f64 are rounded by. */
constexpr double LEAD_MARGIN = 1e-9;
constexpr float LOG2_E = 1.4426950408889634f;
/** An exponential below this share of the largest changes no sum over a vocabulary. */
constexpr double SMALLEST_LOG = -45;

enum Kind { NONE, LIKELIEST, DRAW, LIST };

/** What is asked of a row. */
struct Ask {
    int32_t row;
    Kind kind;
    /** Index of its mask; -1: all tokens may be chosen. */
    int32_t mask;
    int32_t first_penalty, end_penalty;
    /** Index of the copy of the row that has the penalties; -1 without penalties. */
    int32_t copy;
    uint32_t place;
    int32_t has_nucleus;
    int32_t has_sum;
    double temperature;
    double share;
};

struct Penalty {
    double amount;
    int32_t token;
    int32_t unused;
};

/** The likeliest tokens of a row, for one of the asks. */
struct Listing {
    int32_t ask;
    int32_t most;
    /** Without penalties. */
    int32_t is_raw;
    int32_t unused;
};

struct Wanted {
    int32_t row;
    int32_t token;
};

/** Of a part of a row: its likeliest token with penalties and without (see `packed`), and the former's logit without. */
struct Best {
    u64 chosen;
    u64 raw;
    float logit;
    int32_t unused;
};

/** Of a part of a row: the token with the most noise and logit, and what the next one has. */
struct Drawn {
    double noisy;
    double second;
    int32_t token;
    float logit;
};

/** Where a nucleus ends. */
struct Border {
    u64 above;
    u64 total;
    int32_t bin;
    /** Of the least logit that is in. */
    uint32_t least;
    int32_t is_unsure;
    int32_t unused;
};

struct Listed {
    u64 chosen;
    float logit;
    int32_t unused;
};

/** Everything that kernels read and write. */
struct Work {
    const float * logits;
    int32_t vocabulary;
    /** Words of a mask. */
    int32_t words;
    /** Tokens of a part; a multiple of BITS. */
    int32_t width;
    int32_t wanted_count;
    const Ask * asks;
    const Listing * listings;
    const Penalty * penalties;
    const Wanted * wanted;
    const uint32_t * masks;
    // Space for what only kernels read.
    float * copies;
    u64 * masses;
    uint32_t * inside_count;
    uint32_t * inside_keys;
    u64 * inside_masses;
    u64 * candidates;
    // Results.
    Best * bests;
    double * sums;
    Border * borders;
    Drawn * drawn;
    Listed * listed;
    float * wanted_logits;
};

/** As large as the logit is; of equal logits, the same. Of a NaN: 0. */
__device__ inline uint32_t key_of(float logit) {
    const uint32_t bits = __float_as_uint(logit);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0;
    if (magnitude == 0) return 0x80000000u;
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/** Of minus infinity: what is not above it is never chosen. */
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

/** Larger for a larger logit, and of equal logits for the lower token; 0 where the token cannot be chosen. */
__device__ inline u64 packed(uint32_t key, int32_t token) {
    return key <= NO_KEY ? 0 : (u64) key << 32 | (uint32_t) ~token;
}

__host__ __device__ inline uint32_t key_in(u64 best) { return (uint32_t) (best >> 32); }
__host__ __device__ inline int32_t token_in(u64 best) { return (int32_t) ~(uint32_t) best; }

/** A block's part of a row. */
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
        return mask == nullptr || (mask[token / BITS] >> (token % BITS) & 1) != 0;
    }

    /** Calls `use(token)` for this thread's tokens that may be chosen. */
    template <typename Use> __device__ void each(Use use) const {
        for (int32_t token = from + (int32_t) threadIdx.x; token < end; token += THREADS) {
            if (allows(token)) use(token);
        }
    }
};

__device__ inline u64 larger(u64 a, u64 b) { return a > b ? a : b; }

__device__ u64 largest_in_block(u64 own) {
    __shared__ u64 found[WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) own = larger(own, __shfl_xor_sync(0xffffffffu, own, step));
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = own;
    __syncthreads();
    u64 best = found[0];
    for (int warp = 1; warp < WARPS; warp++) best = larger(best, found[warp]);
    __syncthreads();
    return best;
}

__device__ u64 sum_in_block(u64 own) {
    __shared__ u64 found[WARPS];
    for (int step = WARP / 2; step > 0; step /= 2) own += __shfl_xor_sync(0xffffffffu, own, step);
    if (threadIdx.x % WARP == 0) found[threadIdx.x / WARP] = own;
    __syncthreads();
    u64 sum = 0;
    for (int warp = 0; warp < WARPS; warp++) sum += found[warp];
    __syncthreads();
    return sum;
}

/** Applies penalties, and finds the likeliest token of each part. */
__global__ void __launch_bounds__(THREADS) survey(const Work work) {
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
    part.each([&](int32_t token) { chosen = larger(chosen, packed(key_of(part.chosen[token]), token)); });
    chosen = largest_in_block(chosen);
    u64 raw = chosen;
    if (ask.copy >= 0) {
        raw = 0;
        part.each([&](int32_t token) { raw = larger(raw, packed(key_of(part.raw[token]), token)); });
        raw = largest_in_block(raw);
    }
    if (threadIdx.x != 0) return;
    Best & best = work.bests[blockIdx.y * PARTS + blockIdx.x];
    best.chosen = chosen;
    best.raw = raw;
    best.logit = chosen == 0 ? 0 : part.raw[token_in(chosen)];
}

/** Of all parts. */
__device__ inline float largest_logit(const Work & work, int32_t ask, bool is_raw) {
    u64 best = 0;
    for (int at = 0; at < PARTS; at++) {
        const Best & found = work.bests[ask * PARTS + at];
        best = larger(best, is_raw ? found.raw : found.chosen);
    }
    return device_logit_of(best == 0 ? NO_KEY : key_in(best));
}

/** Whether a logit counts in a nucleus. Where the largest is infinite, none is sought. */
__device__ inline bool counts(float logit, float largest) {
    return (__float_as_uint(largest) & 0x7fffffffu) != 0x7f800000u && logit >= largest - NEGLIGIBLE;
}

/** For logits that count. */
__device__ inline int bin_of(float logit, float largest) {
    return min(BINS - 1, (int) ((largest - logit) * (BINS / NEGLIGIBLE)));
}

__device__ inline u64 mass_of(float logit, float largest) {
    return (u64) (exp((double) logit - largest) * UNIT + 0.5);
}

/** Sums up exponentials: all without penalties, and for a nucleus by bins. */
__global__ void __launch_bounds__(THREADS) weigh(const Work work) {
    __shared__ u64 masses[BINS];
    __shared__ double sums[THREADS];
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    if (part.ask.has_nucleus != 0) {
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS) masses[bin] = 0;
        __syncthreads();
        const float largest = largest_logit(work, index, false);
        part.each([&](int32_t token) {
            const float logit = part.chosen[token];
            if (counts(logit, largest)) atomicAdd(&masses[bin_of(logit, largest)], mass_of(logit, largest));
        });
        __syncthreads();
        for (int bin = threadIdx.x; bin < BINS; bin += THREADS) {
            if (masses[bin] != 0) atomicAdd(&work.masses[(int64_t) index * BINS + bin], masses[bin]);
        }
    }
    if (part.ask.has_sum == 0) return;
    const float largest = largest_logit(work, index, true);
    double sum = 0;
    part.each([&](int32_t token) {
        const double difference = (double) part.raw[token] - largest;
        // Not of a NaN, which spoils the sum.
        if (difference <= SMALLEST_LOG) return;
        sum += exp(difference);
    });
    sums[threadIdx.x] = sum;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int) threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) work.sums[index * PARTS + blockIdx.x] = sums[0];
}

/** Finds the bin in which a nucleus ends, and collects what is in it. */
__global__ void __launch_bounds__(THREADS) confine(const Work work) {
    __shared__ u64 groups[GROUPS];
    __shared__ int found;
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    if (part.ask.has_nucleus == 0) return;
    const u64 * masses = work.masses + (int64_t) index * BINS;
    if (threadIdx.x < GROUPS) {
        u64 sum = 0;
        for (int at = 0; at < WARP; at++) sum += masses[threadIdx.x * WARP + at];
        groups[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u64 total = 0;
        for (int group = 0; group < GROUPS; group++) total += groups[group];
        const double needed = part.ask.share * (double) total;
        u64 above = 0;
        int group = 0;
        while (group < GROUPS - 1 && (double) (above + groups[group]) < needed) above += groups[group++];
        int bin = group * WARP;
        while (bin < group * WARP + WARP - 1 && (double) (above + masses[bin]) < needed) above += masses[bin++];
        found = bin;
        if (blockIdx.x == 0) {
            Border & border = work.borders[index];
            border.above = above;
            border.total = total;
            border.bin = bin;
        }
    }
    __syncthreads();
    const float largest = largest_logit(work, index, false);
    part.each([&](int32_t token) {
        const float logit = part.chosen[token];
        if (!counts(logit, largest) || bin_of(logit, largest) != found) return;
        const uint32_t at = atomicAdd(&work.inside_count[index], 1u);
        if (at >= ROOM) return;
        work.inside_keys[(int64_t) index * ROOM + at] = key_of(logit);
        work.inside_masses[(int64_t) index * ROOM + at] = mass_of(logit, largest);
    });
}

/** Finds the least logit of a nucleus, bit by bit: the largest with which the logits from it on have the share. */
__global__ void __launch_bounds__(THREADS) settle(const Work work) {
    const int32_t index = blockIdx.x;
    const Ask & ask = work.asks[index];
    if (ask.has_nucleus == 0) return;
    const uint32_t count = min(work.inside_count[index], (uint32_t) ROOM);
    const uint32_t * keys = work.inside_keys + (int64_t) index * ROOM;
    const u64 * masses = work.inside_masses + (int64_t) index * ROOM;
    Border & border = work.borders[index];
    const u64 above = border.above;
    const double needed = ask.share * (double) border.total;
    const auto mass_from = [&](uint32_t least) {
        u64 mass = 0;
        for (uint32_t at = threadIdx.x; at < count; at += THREADS) {
            if (keys[at] >= least) mass += masses[at];
        }
        return above + sum_in_block(mass);
    };
    uint32_t least = 0;
    u64 reached = 0;
    for (int bit = 31; bit >= 0; bit--) {
        const uint32_t tried = least | 1u << bit;
        const u64 mass = mass_from(tried);
        if (mass == above || (double) mass < needed) continue;
        least = tried;
        reached = mass;
    }
    const u64 before = mass_from(least + 1);
    if (threadIdx.x != 0) return;
    const double margin = MASS_MARGIN * (double) border.total;
    border.least = least;
    border.is_unsure = work.inside_count[index] > ROOM || reached == 0 || (double) reached - needed < margin ||
                       // The likeliest token is in, whatever the share is.
                       (before > 0 && needed - (double) before < margin);
}

/** A number of 32 bits in which each of the given one's changes about half. */
__device__ inline uint32_t mixed(uint32_t bits) {
    bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;
    bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
    return bits ^ (bits >> 16);
}

/** Gumbel noise. */
__device__ inline double noise_of(uint32_t bits) { return -log(-log((bits + 0.5) / 4294967296.0)); }

/** Whether a token's noise may be larger than what it lacks: see `may_exceed` in `kernels/choice.cpp`. */
__device__ inline bool may_exceed(uint32_t bits, float lacks) {
    const float power = fmaxf(-126.0f, fminf(0.0f, (SLACK - lacks) * LOG2_E));
    const float bound = __uint_as_float((uint32_t) ((power + 127.0f) * 8388608.0f));
    return (float) (~bits >> 1) * (1.0f / 2147483648.0f) <= bound * 1.001f;
}

/** Draws a token of each part. */
__global__ void __launch_bounds__(THREADS) draw(const Work work) {
    __shared__ Drawn drawn[THREADS];
    const int32_t index = blockIdx.y;
    const Part part(work, index);
    const Ask & ask = part.ask;
    if (ask.kind != DRAW) return;
    const float largest = largest_logit(work, index, false);
    const uint32_t least = ask.has_nucleus != 0 ? max(work.borders[index].least, NO_KEY + 1) : NO_KEY + 1;
    const double none = -1e300;
    const float inverse = (float) (1 / ask.temperature);
    Drawn own{none, none, -1, 0};
    part.each([&](int32_t token) {
        const float logit = part.chosen[token];
        if (key_of(logit) < least) return;
        const uint32_t bits = mixed(ask.place ^ (uint32_t) (token + 1) * 0x9e3779b1u);
        // Most tokens cannot win, whatever their noise is; nor most others with theirs.
        if (!may_exceed(bits, (float) own.noisy - (logit - largest) * inverse)) return;
        const double score = ((double) logit - largest) / ask.temperature;
        if (score + MOST_NOISE <= own.noisy) return;
        const double noisy = score + noise_of(bits);
        if (noisy > own.noisy) {
            own.second = own.noisy;
            own.noisy = noisy;
            own.token = token;
        } else if (noisy > own.second) {
            own.second = noisy;
        }
    });
    drawn[threadIdx.x] = own;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if ((int) threadIdx.x >= step) continue;
        Drawn & one = drawn[threadIdx.x];
        const Drawn & other = drawn[threadIdx.x + step];
        const double lower = fmin(one.noisy, other.noisy);
        const double second = fmax(lower, fmax(one.second, other.second));
        if (other.noisy > one.noisy) one = other;
        one.second = second;
    }
    if (threadIdx.x != 0) return;
    Drawn & best = drawn[0];
    if (best.token >= 0) best.logit = part.raw[best.token];
    work.drawn[index * PARTS + blockIdx.x] = best;
}

/** Writes the largest of what `item(at)` gives, in descending order; 0 where there are no more. */
template <typename Item> __device__ void list(int32_t count, Item item, int32_t most, u64 * listed) {
    const auto next = [&](u64 below) {
        u64 best = 0;
        for (int32_t at = threadIdx.x; at < count; at += THREADS) {
            const u64 one = item(at);
            if (one < below) best = larger(best, one);
        }
        return best;
    };
    u64 own = next(~0ull);
    for (int32_t place = 0; place < most; place++) {
        const u64 best = largest_in_block(own);
        if (threadIdx.x == 0) listed[place] = best;
        if (best != 0 && own == best) own = next(best);
    }
}

/** Lists the likeliest tokens of each part. */
__global__ void __launch_bounds__(THREADS) list_parts(const Work work) {
    const Listing & listing = work.listings[blockIdx.y];
    const Part part(work, listing.ask);
    const float * logits = listing.is_raw != 0 ? part.raw : part.chosen;
    const auto item = [&](int32_t at) {
        const int32_t token = part.from + at;
        return part.allows(token) ? packed(key_of(logits[token]), token) : 0;
    };
    u64 * listed = work.candidates + ((int64_t) blockIdx.y * PARTS + blockIdx.x) * MOST;
    list(part.end - part.from, item, listing.most, listed);
}

/** Lists the likeliest of all parts. */
__global__ void __launch_bounds__(THREADS) list_all(const Work work) {
    __shared__ u64 listed[MOST];
    const Listing & listing = work.listings[blockIdx.x];
    const u64 * candidates = work.candidates + (int64_t) blockIdx.x * PARTS * MOST;
    const int32_t most = listing.most;
    const auto item = [&](int32_t at) { return candidates[at / most * MOST + at % most]; };
    list(most * PARTS, item, most, listed);
    __syncthreads();
    const float * raw = work.logits + (int64_t) work.asks[listing.ask].row * work.vocabulary;
    for (int32_t at = threadIdx.x; at < most; at += THREADS) {
        Listed & out = work.listed[blockIdx.x * MOST + at];
        out.chosen = listed[at];
        out.logit = listed[at] == 0 ? 0 : raw[token_in(listed[at])];
    }
}

__global__ void __launch_bounds__(THREADS) gather(const Work work) {
    const int32_t at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= work.wanted_count) return;
    const Wanted & wanted = work.wanted[at];
    work.wanted_logits[at] = work.logits[(int64_t) wanted.row * work.vocabulary + wanted.token];
}

/** Memory of a device, or memory that it reads and writes directly; it grows. */
class Memory {
public:
    explicit Memory(bool is_host) : is_host(is_host) {}
    ~Memory() { release(); }

    /** @return null where there is not enough. What was in it is lost. */
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

/** Lays arrays out behind each other. */
class Layout {
public:
    template <typename T> size_t add(size_t count) {
        const size_t offset = bytes;
        bytes += (count * sizeof(T) + 255) / 256 * 256;
        return offset;
    }
    size_t bytes = 0;
};

/** Numbers of an ask, as the caller writes it. */
constexpr int ASK_NUMBERS = 10;
/** Numbers of an answer: those below, then a list of MOST tokens with two logits each, and one of MOST with one each. */
constexpr int ANSWER_NUMBERS = 6 + 3 * MOST + 2 * MOST;

/** Chooses from the logits of one context. All its functions are called on one thread. */
struct Chooser {
    const int32_t vocabulary;
    /** Rows that the next fetch must have to be kept; 0: none is. */
    int32_t expected = 0;
    /** Rows that were kept. */
    int32_t rows = 0;
    const float * logits = nullptr;
    float * host = nullptr;
    int device = 0;
    cudaStream_t stream = nullptr;

    Memory upload{true}, uploaded{false}, space{false}, copies{false}, result{false}, results{true};
    /** Of the asks that wait for answers. */
    std::vector<Ask> asks;
    std::vector<Listing> listings;
    /** Of each ask, the index of the listing for its choice and of that for its ranking; -1 for none. */
    std::vector<int32_t> choice_listing, rank_listing;
    size_t wanted_count = 0;
    size_t bests_at = 0, sums_at = 0, borders_at = 0, drawn_at = 0, listed_at = 0, wanted_at = 0;
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
    listings.clear();
    choice_listing.assign(count, -1);
    rank_listing.assign(count, -1);
    int32_t copy_count = 0;
    bool weighs = false, has_nucleus = false, draws = false;
    for (int32_t index = 0; index < count; index++) {
        const double * n = numbers + (size_t) index * ASK_NUMBERS;
        Ask one{};
        one.row = (int32_t) n[0];
        one.kind = (Kind) (int) n[1];
        one.mask = (int32_t) n[2];
        one.first_penalty = (int32_t) n[3];
        one.end_penalty = (int32_t) n[4];
        one.temperature = n[5];
        one.share = n[6];
        one.place = (uint32_t) n[7];
        const int32_t most = (int32_t) n[8], ranked = (int32_t) n[9];
        if (one.row < 0 || one.row >= rows || one.mask >= mask_count || most > MOST || ranked > MOST) return false;
        one.copy = one.end_penalty > one.first_penalty ? copy_count++ : -1;
        one.has_nucleus = one.kind == DRAW && one.share < 1;
        one.has_sum = ranked >= 0;
        weighs = weighs || one.has_nucleus || one.has_sum;
        has_nucleus = has_nucleus || one.has_nucleus;
        draws = draws || one.kind == DRAW;
        const bool shares = one.kind == LIST && one.copy < 0;
        if (one.kind == LIST) {
            choice_listing[index] = (int32_t) listings.size();
            listings.push_back({index, shares ? std::max(most, ranked) : most, 0, 0});
        }
        if (ranked > 0) {
            rank_listing[index] = shares ? choice_listing[index] : (int32_t) listings.size();
            if (!shares) listings.push_back({index, ranked, 1, 0});
        }
        asks.push_back(one);
    }
    wanted_count = pair_count;
    const int32_t words = (vocabulary + BITS - 1) / BITS;

    Layout in;
    const size_t asks_at = in.add<Ask>(count);
    const size_t listings_at = in.add<Listing>(listings.size());
    const size_t penalties_at = in.add<Penalty>(penalty_count);
    const size_t pairs_at = in.add<Wanted>(pair_count);
    const size_t masks_at = in.add<uint32_t>((size_t) mask_count * words);
    Layout between;
    const size_t masses_at = between.add<u64>(has_nucleus ? (size_t) count * BINS : 0);
    const size_t inside_count_at = between.add<uint32_t>(has_nucleus ? count : 0);
    const size_t cleared = between.bytes;
    const size_t inside_keys_at = between.add<uint32_t>(has_nucleus ? (size_t) count * ROOM : 0);
    const size_t inside_masses_at = between.add<u64>(has_nucleus ? (size_t) count * ROOM : 0);
    const size_t candidates_at = between.add<u64>(listings.size() * PARTS * MOST);
    Layout out;
    bests_at = out.add<Best>((size_t) count * PARTS);
    sums_at = out.add<double>((size_t) count * PARTS);
    borders_at = out.add<Border>(count);
    drawn_at = out.add<Drawn>((size_t) count * PARTS);
    listed_at = out.add<Listed>(listings.size() * MOST);
    wanted_at = out.add<float>(pair_count);

    // What was asked before may still be read.
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
    std::copy(listings.begin(), listings.end(), (Listing *) (staged + listings_at));
    auto * penalties = (Penalty *) (staged + penalties_at);
    for (int32_t at = 0; at < penalty_count; at++) penalties[at] = {amounts[at], tokens[at], 0};
    memcpy(staged + pairs_at, wanted_pairs, pair_count * sizeof(Wanted));
    memcpy(staged + masks_at, masks, (size_t) mask_count * words * sizeof(uint32_t));

    Work work{};
    work.logits = logits;
    work.vocabulary = vocabulary;
    work.words = words;
    work.width = ((vocabulary + PARTS - 1) / PARTS + BITS - 1) / BITS * BITS;
    work.wanted_count = pair_count;
    work.asks = (const Ask *) (input + asks_at);
    work.listings = (const Listing *) (input + listings_at);
    work.penalties = (const Penalty *) (input + penalties_at);
    work.wanted = (const Wanted *) (input + pairs_at);
    work.masks = (const uint32_t *) (input + masks_at);
    work.copies = (float *) copied;
    work.masses = (u64 *) (room + masses_at);
    work.inside_count = (uint32_t *) (room + inside_count_at);
    work.inside_keys = (uint32_t *) (room + inside_keys_at);
    work.inside_masses = (u64 *) (room + inside_masses_at);
    work.candidates = (u64 *) (room + candidates_at);
    work.bests = (Best *) (output + bests_at);
    work.sums = (double *) (output + sums_at);
    work.borders = (Border *) (output + borders_at);
    work.drawn = (Drawn *) (output + drawn_at);
    work.listed = (Listed *) (output + listed_at);
    work.wanted_logits = (float *) (output + wanted_at);

    bool ok = cudaMemcpyAsync(input, staged, in.bytes, cudaMemcpyHostToDevice, stream) == cudaSuccess;
    if (has_nucleus) ok = ok && cudaMemsetAsync(room, 0, cleared, stream) == cudaSuccess;
    if (count > 0) ok = ok && launch(survey, PARTS, count, stream, work);
    if (weighs) ok = ok && launch(weigh, PARTS, count, stream, work);
    if (has_nucleus) {
        ok = ok && launch(confine, PARTS, count, stream, work);
        ok = ok && launch(settle, count, 1, stream, work);
    }
    if (draws) ok = ok && launch(draw, PARTS, count, stream, work);
    if (!listings.empty()) {
        ok = ok && launch(list_parts, PARTS, (unsigned) listings.size(), stream, work);
        ok = ok && launch(list_all, (unsigned) listings.size(), 1, stream, work);
    }
    if (pair_count > 0) ok = ok && launch(gather, (pair_count + THREADS - 1) / THREADS, 1, stream, work);
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

/** Writes an answer: whether it is unsure, the token and its logit, the logarithm of the sum, and two lists. */
void Chooser::write(int32_t index, double * answer) const {
    const Ask & ask = asks[index];
    const Best * bests = (const Best *) (found + bests_at) + (size_t) index * PARTS;
    const Best * best = bests;
    u64 raw = 0;
    for (int part = 0; part < PARTS; part++) {
        if (bests[part].chosen > best->chosen) best = bests + part;
        raw = std::max(raw, bests[part].raw);
    }
    const bool has_token = best->chosen != 0;
    bool is_unsure = ask.kind != NONE && !has_token;
    int32_t token = has_token ? token_in(best->chosen) : -1;
    double logit = best->logit;
    // A logit that is infinite is drawn for sure.
    if (ask.kind == DRAW && has_token && key_in(best->chosen) != INFINITE_KEY) {
        const Drawn * drawn = (const Drawn *) (found + drawn_at) + (size_t) index * PARTS;
        const Drawn * first = drawn;
        for (int part = 1; part < PARTS; part++) {
            if (drawn[part].noisy > first->noisy) first = drawn + part;
        }
        double second = first->second;
        for (int part = 0; part < PARTS; part++) {
            if (drawn + part != first) second = std::max(second, drawn[part].noisy);
        }
        is_unsure = first->token < 0 || first->noisy - second < LEAD_MARGIN ||
                    (ask.has_nucleus && ((const Border *) (found + borders_at))[index].is_unsure);
        token = first->token;
        logit = first->logit;
    }
    double sum = std::numeric_limits<double>::quiet_NaN();
    if (ask.has_sum) {
        const double * sums = (const double *) (found + sums_at) + (size_t) index * PARTS;
        double total = 0;
        for (int part = 0; part < PARTS; part++) total += sums[part];
        sum = raw == 0 ? total : logit_of(key_in(raw)) + std::log(total);
        // Nor can anything be said of rows with what is no number.
        is_unsure = is_unsure || raw == 0 || key_in(raw) == INFINITE_KEY || std::isnan(sum);
    }
    answer[0] = is_unsure;
    answer[1] = token;
    answer[2] = logit;
    answer[3] = sum;
    const auto list = [&](int32_t listing, double * count, double * out, bool with_both) {
        *count = 0;
        if (listing < 0) return;
        const Listed * listed = (const Listed *) (found + listed_at) + (size_t) listing * MOST;
        for (int32_t at = 0; at < listings[listing].most && listed[at].chosen != 0; at++) {
            *out++ = token_in(listed[at].chosen);
            if (with_both) *out++ = logit_of(key_in(listed[at].chosen));
            *out++ = listed[at].logit;
            ++*count;
        }
    };
    list(choice_listing[index], answer + 4, answer + 6, true);
    list(rank_listing[index], answer + 5, answer + 6 + 3 * MOST, false);
}

}  // namespace

/**
 * ggml's CUDA backend asks this before it copies a tensor to the host.
 * @return whether the copy is left out: the tensor has the logits that an armed chooser waits for.
 */
bool lookout_keeps(const char * name, const void * from, void * to, size_t bytes, int device, cudaStream_t stream) {
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

/** @return a chooser for a context. @param vocabulary logits of a row. */
extern "C" void * lookout_chooser_new(int32_t vocabulary) { return new Chooser(vocabulary); }

extern "C" void lookout_chooser_free(void * chooser) {
    if (armed == chooser) armed = nullptr;
    delete (Chooser *) chooser;
}

/** Before a step: has the logits of its rows kept on the device, where it computes them in one go. */
extern "C" void lookout_chooser_arm(void * chooser, int32_t rows) {
    armed = (Chooser *) chooser;
    armed->expected = rows;
    armed->rows = 0;
    armed->found = nullptr;
}

/** After a step has been launched. @return whether its logits are kept; else llama.cpp has fetched them. */
extern "C" bool lookout_chooser_keeps(void * chooser) {
    if (armed == chooser) armed = nullptr;
    return ((Chooser *) chooser)->rows > 0;
}

/**
 * Has rows looked at, behind the step. What was asked before and not answered is dropped.
 * @param asks ten numbers for each: its row; 0 for no choice, 1 for the likeliest token, 2 for a draw, 3 for a list; its mask
 * or -1; its first penalty and the one after its last; the temperature; the share of a nucleus; the place; how many tokens the
 * list has; and how many of the likeliest tokens are ranked, -1 where no sum is wanted.
 * @param tokens with penalties, and by how much each logit is lowered.
 * @param masks a bit for each token that may be chosen, 32 to a word.
 * @param wanted pairs of row and token whose logits are wanted.
 * @return false where it cannot be computed.
 */
extern "C" bool lookout_chooser_ask(void * chooser, int32_t count, const double * asks, const int32_t * tokens,
                                    const double * amounts, int32_t penalties, const uint32_t * masks, int32_t mask_count,
                                    const int32_t * wanted, int32_t pairs) {
    return ((Chooser *) chooser)
        ->ask(count, asks, tokens, amounts, penalties, masks, mask_count, wanted, pairs);
}

/**
 * Blocks until the answers are there.
 * @param answers 326 numbers for each ask: 1 where the CPU must choose; the token, and its logit without penalties; the
 * logarithm of the sum of exponentials; the lengths of two lists; a list of tokens, each with its logit with and without
 * penalties; and a list of the likeliest tokens without penalties. A list has room for 64.
 */
extern "C" bool lookout_chooser_answer(void * chooser, double * answers, float * wanted_logits) {
    return ((Chooser *) chooser)->answer(answers, wanted_logits);
}

/** Copies a row of logits to where llama.cpp has them. Blocks. */
extern "C" bool lookout_chooser_fetch(void * chooser, int32_t row) {
    const Chooser & from = *(const Chooser *) chooser;
    if (row < 0 || row >= from.rows || cudaSetDevice(from.device) != cudaSuccess) return false;
    const size_t offset = (size_t) row * from.vocabulary;
    const size_t bytes = from.vocabulary * sizeof(float);
    return cudaMemcpyAsync(from.host + offset, from.logits + offset, bytes, cudaMemcpyDeviceToHost, from.stream) == cudaSuccess &&
           cudaStreamSynchronize(from.stream) == cudaSuccess;
}
