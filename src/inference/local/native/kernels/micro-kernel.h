// What the GEMM and attention kernels share: register pinning, packing buffers, and the division of work among threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

extern "C" void ggml_threadpool_chunk_set(struct ggml_threadpool * pool, int value);
extern "C" int ggml_threadpool_chunk_add(struct ggml_threadpool * pool, int value);

namespace {

/** Bytes of a cache line. */
constexpr int CACHE_LINE = 64;
/** Chunks of a GEMM per thread. With several, a thread that was preempted delays the others less. */
constexpr int64_t CHUNKS_PER_THREAD = 4;
/** Maximum bytes of weights, times rows of the batch, of a GEMM for which chunks gain less than their two barriers cost. */
constexpr int64_t MAX_SMALL_GEMM = 1 << 20;

/** Keeps a vector that is used several times in a register. The compiler would load it from memory each time. */
template <typename Vector> inline Vector pin_register(Vector x) {
    asm("" : "+v"(x));
    return x;
}

/** A growing buffer, aligned to cache lines. */
template <typename Element> struct AlignedBuffer {
    std::vector<uint8_t> memory;

    Element * reserve(size_t count) {
        const size_t bytes = count * sizeof(Element) + CACHE_LINE;
        if (memory.size() < bytes) memory.resize(bytes);
        return (Element *) (((uintptr_t) memory.data() + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    }
};

/**
 * Distributes the rows of weights among the threads: in chunks, of which a free thread takes the next one, or evenly where the
 * GEMM is small.
 * @param size bytes of weights times rows of the batch.
 * @param step rows that belong together. @param max_chunk a multiple of it.
 * @param work receives the first row of a part and the row after its last.
 */
template <typename Work>
void parallel_rows(const ggml_compute_params * params, int64_t m, int64_t size, int64_t step, int64_t max_chunk, const Work & work) {
    const int64_t steps = (m + step - 1) / step;
    if (size <= MAX_SMALL_GEMM) {
        const int64_t first = steps * params->ith / params->nth * step;
        const int64_t end = std::min(m, steps * (params->ith + 1) / params->nth * step);
        if (first < end) work(first, end);
        return;
    }
    if (params->ith == 0) ggml_threadpool_chunk_set(params->threadpool, params->nth);
    ggml_barrier(params->threadpool);
    const int64_t rows = step * std::clamp<int64_t>(steps / (CHUNKS_PER_THREAD * params->nth), 1, max_chunk / step);
    const int64_t chunks = (m + rows - 1) / rows;
    for (int64_t chunk = params->ith; chunk < chunks; chunk = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        work(chunk * rows, std::min(m, (chunk + 1) * rows));
    }
    // The next user of the chunk counter resets it.
    ggml_barrier(params->threadpool);
}

/** Calls a function with a number from 1 to MAX as a compile-time constant. */
template <int MAX, typename Call> inline void with_constant(int64_t number, const Call & call) {
    if constexpr (MAX > 1) {
        if (number < MAX) return with_constant<MAX - 1>(number, call);
    }
    call(std::integral_constant<int, MAX>());
}

}  // namespace
