// Our products of quantised weights without the rest of ggml, so that they can be compiled in seconds for another processor
// than this one.

#include "ggml-impl.h"

#include "../../src/inference/local/native/kernels/gemm.h"

#include <atomic>
#include <pthread.h>
#include <thread>

struct ggml_threadpool {
    pthread_barrier_t barrier;
    std::atomic<int> chunk;
};

void ggml_barrier(ggml_threadpool * pool) { pthread_barrier_wait(&pool->barrier); }
extern "C" void ggml_threadpool_chunk_set(ggml_threadpool * pool, int value) { pool->chunk = value; }
extern "C" int ggml_threadpool_chunk_add(ggml_threadpool * pool, int value) { return pool->chunk.fetch_add(value); }

template <typename Block>
static void compute(int threads, int64_t m, int64_t n, int64_t blocks, const void * weights, const void * rows, float * out) {
    ggml_threadpool pool;
    pthread_barrier_init(&pool.barrier, nullptr, threads);
    std::vector<std::thread> running;
    for (int i = 0; i < threads; i++) {
        running.emplace_back([&, i] {
            ggml_compute_params params = {};
            params.ith = i;
            params.nth = threads;
            params.threadpool = &pool;
            using Row = typename QuantTraits<Block>::Activation;
            gemm(&params, m, n, blocks, (const Block *) weights, blocks, (const Row *) rows, blocks, out, m);
        });
    }
    for (std::thread & thread : running) thread.join();
    pthread_barrier_destroy(&pool.barrier);
}

/** @param type ggml's of the weights. @param rows quantised to the type that ggml multiplies such weights with. */
extern "C" void multiply(int type, int threads, int64_t m, int64_t n, int64_t blocks, const void * weights, const void * rows,
                         float * out) {
    const bool is_ours = with_blocks(type, weights, [&](const auto * from) {
        compute<std::decay_t<decltype(*from)>>(threads, m, n, blocks, from, rows, out);
    });
    if (!is_ours) abort();
}
