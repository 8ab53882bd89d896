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

/** Calls a function with a number from 1 to MAX as a compile-time constant. */
template <int MAX, typename Call> inline void with_constant(int64_t number, const Call & call) {
    if constexpr (MAX > 1) {
        if (number < MAX) return with_constant<MAX - 1>(number, call);
    }
    call(std::integral_constant<int, MAX>());
}

}  // namespace
