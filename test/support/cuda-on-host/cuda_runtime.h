// CUDA's runtime for a computer without a GPU, as far as our kernels use it, so that g++ compiles and runs their very source.
//
// Blocks run one after the other. The threads of a block are coroutines, which change only where they wait for each other,
// and go on in another order after each wait: what needs a wait and has none shows.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(threads)

using std::max;
using std::min;

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

typedef struct CUstream_st * cudaStream_t;
enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    cudaStream_t stream;
};

inline dim3 blockIdx, threadIdx;

/** The threads of one block. */
class Block {
public:
    explicit Block(unsigned count) : threads(count), order(count), exchanged(count) {
        for (unsigned at = 0; at < count; at++) order[at] = at;
    }

    void run(const std::function<void()> & kernel) {
        current = this;
        for (Thread & thread : threads) {
            thread.is_done = false;
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.get();
            thread.context.uc_stack.ss_size = STACK;
            thread.context.uc_link = &scheduler;
            makecontext(&thread.context, start, 0);
        }
        work = &kernel;
        for (bool goes_on = true; goes_on;) {
            goes_on = false;
            std::shuffle(order.begin(), order.end(), random);
            for (unsigned at : order) {
                if (threads[at].is_done) continue;
                running = at;
                threadIdx = dim3(at, 0, 0);
                swapcontext(&scheduler, &threads[at].context);
                goes_on = goes_on || !threads[at].is_done;
            }
        }
    }

    void wait() { swapcontext(&threads[running].context, &scheduler); }

    template <typename T> T exchange(T own, int with) {
        static_assert(sizeof(T) <= sizeof(exchanged[0]));
        memcpy(&exchanged[running], &own, sizeof(T));
        wait();
        T other;
        memcpy(&other, &exchanged[running ^ (unsigned) with], sizeof(T));
        wait();
        return other;
    }

    static inline Block * current = nullptr;

private:
    static constexpr size_t STACK = 64 << 10;
    struct Thread {
        ucontext_t context;
        std::unique_ptr<char[]> stack{new char[STACK]};
        bool is_done = false;
    };
    std::vector<Thread> threads;
    std::vector<unsigned> order;
    std::vector<uint64_t> exchanged;
    ucontext_t scheduler;
    const std::function<void()> * work = nullptr;
    unsigned running = 0;
    std::mt19937 random{1};

    static void start() {
        Block * const block = current;
        (*block->work)();
        block->threads[block->running].is_done = true;
    }
};

inline void __syncthreads() { Block::current->wait(); }
template <typename T> T __shfl_xor_sync(unsigned, T own, int with) { return Block::current->exchange(own, with); }
template <typename T> T atomicAdd(T * at, T by) {
    const T before = *at;
    *at += by;
    return before;
}
inline uint32_t __float_as_uint(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}
inline float __uint_as_float(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

template <typename... Expected, typename... Given>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t * config, void (*kernel)(Expected...), Given &&... given) {
    static Block block(config->blockDim.x);
    for (unsigned y = 0; y < config->gridDim.y; y++) {
        for (unsigned x = 0; x < config->gridDim.x; x++) {
            blockIdx = dim3(x, y, 0);
            block.run([&] { kernel(given...); });
        }
    }
    return cudaSuccess;
}

/** Memory is never what one expects before it is written. */
inline cudaError_t cudaMalloc(void ** at, size_t bytes) {
    *at = malloc(bytes);
    memset(*at, 0xa5, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMallocHost(void ** at, size_t bytes) { return cudaMalloc(at, bytes); }
inline cudaError_t cudaFree(void * at) {
    free(at);
    return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void * at) { return cudaFree(at); }
inline cudaError_t cudaMemcpyAsync(void * to, const void * from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void * at, int byte, size_t bytes, cudaStream_t) {
    memset(at, byte, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
