// Our attention, products of floats and GELU without the rest of ggml, so that it can be compiled in a second for another processor than this one.

#include "../../src/inference/local/native/kernels/attention.h"
#include "../../src/inference/local/native/kernels/encoder-attention.h"
#include "../../src/inference/local/native/kernels/gelu.h"
#include "../../src/inference/local/native/kernels/gemm-f16.cpp"
#include "../../src/inference/local/native/kernels/gemm-f32.cpp"

#include <pthread.h>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

struct ggml_threadpool {
    pthread_barrier_t barrier;
    std::atomic<int> chunk;
};

void ggml_barrier(ggml_threadpool * pool) { pthread_barrier_wait(&pool->barrier); }
extern "C" void ggml_threadpool_chunk_set(ggml_threadpool * pool, int value) { pool->chunk = value; }
extern "C" int ggml_threadpool_chunk_add(ggml_threadpool * pool, int value) { return pool->chunk.fetch_add(value); }

/** Calls `run` in each of some threads. */
static void in_threads(int count, const std::function<void(const ggml_compute_params &)> & run) {
    ggml_threadpool pool;
    pthread_barrier_init(&pool.barrier, nullptr, count);
    std::vector<char> scratch(1 << 20);
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++) {
        threads.emplace_back([&, i] {
            ggml_compute_params params = {};
            params.ith = i;
            params.nth = count;
            params.wsize = scratch.size();
            params.wdata = scratch.data();
            params.threadpool = &pool;
            run(params);
        });
    }
    for (std::thread & thread : threads) thread.join();
    pthread_barrier_destroy(&pool.barrier);
}

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

static const uint64_t * stamps = nullptr;

/** In place of that of cell-order.h. */
extern "C" const uint64_t * lookout_cell_stamps(const ggml_tensor *) { return stamps; }

struct Shape {
    int32_t type;  // The type of keys and values.
    int32_t width;
    int32_t value_width;
    int32_t rows;
    int32_t heads;
    int32_t key_heads;
    int32_t cells;
    int32_t streams;
    int32_t threads;
};

/** @param order by cell: the higher, the later it was written. Null where cells are in order. @return 0, or 1 when the attention leaves this to ggml. */
extern "C" int attend(const Shape * of, float scale, float cap, const float * queries, const void * keys, const void * values, const void * mask, const float * sinks, const uint64_t * order, float * out) {
    stamps = order;
    const bool is_half = of->type == GGML_TYPE_F16;
    const auto cells = [&](const void * data, int64_t width) {
        return tensor((ggml_type) of->type, is_half ? 2 : 34, is_half ? 1 : 32, data, width, of->cells, of->key_heads, of->streams);
    };
    ggml_tensor q = tensor(GGML_TYPE_F32, 4, 1, queries, of->width, of->rows, of->heads, of->streams);
    ggml_tensor k = cells(keys, of->width);
    ggml_tensor v = cells(values, of->value_width);
    ggml_tensor seen = tensor(GGML_TYPE_F16, 2, 1, mask, of->cells, of->rows, 1, of->streams);
    ggml_tensor result = tensor(GGML_TYPE_F32, 4, 1, out, of->value_width, of->heads, of->rows, of->streams);
    result.src[0] = &q;
    result.src[1] = &k;
    result.src[2] = &v;
    result.src[3] = mask == nullptr ? nullptr : &seen;
    ggml_tensor sink = tensor(GGML_TYPE_F32, 4, 1, sinks, of->heads, 1, 1, 1);
    result.src[4] = sinks == nullptr ? nullptr : &sink;
    const float params[] = {scale, 0.0f, cap};
    memcpy(result.op_params, params, sizeof(params));
    const EncoderAttention encoder_attention(&result);
    const Attention attention(&result);
    const bool is_encoder = encoder_attention.is_supported();
    if (!is_encoder && !attention.is_supported()) return 1;
    in_threads(of->threads, [&](const ggml_compute_params & params) {
        if (is_encoder) encoder_attention.run(&params);
        else attention.run(&params);
    });
    return 0;
}

template <typename Element, typename Gemm>
static int multiply(int threads, int64_t m, int64_t n, int64_t k, const Element * weights, const Element * rows, float * out, Gemm gemm) {
    std::atomic<int> refused{0};
    in_threads(threads, [&](const ggml_compute_params & params) {
        if (!gemm(&params, m, n, k, weights, k, rows, k, out, m)) refused = 1;
    });
    return refused;
}

/** @return 0, or 1 when this is left to ggml. */
extern "C" int multiply_f16(int threads, int64_t m, int64_t n, int64_t k, const ggml_fp16_t * weights, const ggml_fp16_t * rows, float * out) {
    return multiply(threads, m, n, k, weights, rows, out, lookout_gemm_f16);
}

extern "C" int multiply_f32(int threads, int64_t m, int64_t n, int64_t k, const float * weights, const float * rows, float * out) {
    return multiply(threads, m, n, k, weights, rows, out, lookout_gemm_f32);
}

extern "C" void gelu_of(int count, const float * x, float * out) { vec_gelu(count, out, x); }
extern "C" void gelu_quick_of(int count, const float * x, float * out) { vec_gelu_quick(count, out, x); }
extern "C" void geglu_of(int count, const float * x, const float * factors, float * out) { vec_geglu(count, out, x, factors); }
