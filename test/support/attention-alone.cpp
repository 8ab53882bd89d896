// Our attention without the rest of ggml, so that it can be compiled in a second for another processor than this one.

#include "../../src/inference/local/native/kernels/attention.h"

#include <pthread.h>
#include <thread>
#include <vector>

struct ggml_threadpool {
    pthread_barrier_t barrier;
};

void ggml_barrier(ggml_threadpool * pool) { pthread_barrier_wait(&pool->barrier); }

static ggml_tensor tensor(ggml_type type, size_t bytes, int64_t elements, const void * data, int64_t a, int64_t b, int64_t c, int64_t d) {
    ggml_tensor of = {};
    of.type = type;
    of.data = (void *) data;
    const int64_t sizes[] = {a, b, c, d};
    std::copy(sizes, sizes + 4, of.ne);
    of.nb[0] = bytes;
    of.nb[1] = a / elements * bytes;
    of.nb[2] = of.nb[1] * b;
    of.nb[3] = of.nb[2] * c;
    return of;
}

struct Shape {
    int32_t type;  // Of keys and values.
    int32_t width;
    int32_t rows;
    int32_t heads;
    int32_t key_heads;
    int32_t cells;
    int32_t streams;
    int32_t threads;
};

/** @return 0, or 1 when the attention leaves this to ggml. */
extern "C" int attend(const Shape * of, float scale, const float * queries, const void * keys, const void * values, const void * mask, float * out) {
    const bool is_half = of->type == GGML_TYPE_F16;
    const auto cells = [&](const void * data) {
        return tensor((ggml_type) of->type, is_half ? 2 : 34, is_half ? 1 : 32, data, of->width, of->cells, of->key_heads, of->streams);
    };
    ggml_tensor q = tensor(GGML_TYPE_F32, 4, 1, queries, of->width, of->rows, of->heads, of->streams);
    ggml_tensor k = cells(keys);
    ggml_tensor v = cells(values);
    ggml_tensor seen = tensor(GGML_TYPE_F16, 2, 1, mask, of->cells, of->rows, 1, of->streams);
    ggml_tensor result = tensor(GGML_TYPE_F32, 4, 1, out, of->width, of->heads, of->rows, of->streams);
    result.src[0] = &q;
    result.src[1] = &k;
    result.src[2] = &v;
    result.src[3] = &seen;
    memcpy(result.op_params, &scale, sizeof(scale));
    const Attention attention(&result);
    if (!attention.is_ours()) return 1;

    ggml_threadpool pool;
    pthread_barrier_init(&pool.barrier, nullptr, of->threads);
    std::vector<char> scratch(1 << 20);
    std::vector<std::thread> threads;
    for (int i = 0; i < of->threads; i++) {
        threads.emplace_back([&, i] {
            ggml_compute_params params = {};
            params.ith = i;
            params.nth = of->threads;
            params.wsize = scratch.size();
            params.wdata = scratch.data();
            params.threadpool = &pool;
            attention.run(&params);
        });
    }
    for (std::thread & thread : threads) thread.join();
    pthread_barrier_destroy(&pool.barrier);
    return 0;
}
