// CUDA's runtime for a computer without a GPU, as far as our kernels use it, so that g++ compiles and runs their very source.
//
// Blocks run one after the other. The threads of a block are coroutines, which change only where they wait for each other,
// and go on in another order after each wait: what needs a wait and has none shows.
#pragma once

#include <setjmp.h>
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

/** The threads of one block. They change by `_longjmp`, which makes no system call as `swapcontext` does. */
class Block {
public:
    explicit Block(unsigned count) : threads(count), order(count), exchanged(count) {
        for (unsigned at = 0; at < count; at++) order[at] = at;
    }

    void run(const std::function<void()> & kernel) {
        current = this;
        work = &kernel;
        for (Thread & thread : threads) thread.state = NEW;
        do {
            goes_on = false;
            std::shuffle(order.begin(), order.end(), random);
            for (next = 0; next < order.size(); next++) {
                running = order[next];
                if (threads[running].state != DONE) go_on();
            }
        } while (goes_on);
    }

    void wait() {
        goes_on = true;
        if (_setjmp(threads[running].place) == 0) _longjmp(back, 1);
    }

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
    enum State { NEW, WAITING, DONE };
    struct Thread {
        ucontext_t context;
        jmp_buf place;
        std::unique_ptr<char[]> stack{new char[STACK]};
        State state;
    };
    std::vector<Thread> threads;
    std::vector<unsigned> order;
    std::vector<uint64_t> exchanged;
    const std::function<void()> * work = nullptr;
    // In memory, where jumps leave them alone.
    jmp_buf back;
    unsigned next = 0;
    unsigned running = 0;
    bool goes_on = false;
    std::mt19937 random{1};

    void go_on() {
        Thread & thread = threads[running];
        threadIdx = dim3(running, 0, 0);
        if (_setjmp(back) != 0) return;
        if (thread.state == WAITING) _longjmp(thread.place, 1);
        thread.state = WAITING;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.get();
        thread.context.uc_stack.ss_size = STACK;
        makecontext(&thread.context, start, 0);
        setcontext(&thread.context);
    }

    static void start() {
        Block * const block = current;
        (*block->work)();
        block->threads[block->running].state = DONE;
        _longjmp(block->back, 1);
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
