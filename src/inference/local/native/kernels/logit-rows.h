// A row of logits with a mask of allowed tokens, and its division among threads.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

/** Tokens per chunk: loops over a chunk are vectorised by the compiler. Also the bits of a word of the mask. */
constexpr int CHUNK = 32;

constexpr double LOG2_E = 1.4426950408889634;

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

}  // namespace
