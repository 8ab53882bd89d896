// GEMM of quantised weights and a batch of rows, for x86 with AVX-512 VNNI or AVX2. It replaces ggml's sgemm.cpp for
// Q8_0, Q5_0, Q4_0, IQ4_NL, MXFP4, Q6_K, Q5_K and Q4_K, and computes the products of experts with such weights.
//
// ggml's sgemm reads the weights again for every few rows of a batch, reduces across lanes for every block, and is slowest where
// the number of rows is not a multiple of its tiles: 15 next tokens took longer than 16.
//
// Here, as in BLIS, MR rows of weights are packed into a panel, one for each lane: a vector holds four neighbouring weights of
// each of them. One VNNI instruction multiplies them with four values of a batch row, without sums across lanes. Weights are
// read and unpacked once for the whole batch. For a few rows, packing costs more than it saves: GEMV reads the weights as the
// file has them.
//
// The result of a row does not depend on the rest of the batch (batch invariance): the dot product of a block is an integer,
// which is exact, and every kernel adds the scaled blocks one after another. For other types, see gemm-f16.cpp, gemm-f32.cpp and
// `other_sgemm`.
//
//   quant-blocks.h      block formats: unpacking of quants and scales
//   gemm-activations.h  packing of the batch
//   gemm-panel.h        packing of the weights
//   gemm-avx512.h       micro-kernels for AVX-512 VNNI
//   gemm-avx2.h         micro-kernels for AVX2 and AVX-VNNI
//   gemm-amx.h          larger batches of K-quants on AMX tiles (amx-tiles.h)
//   gemv.h              batches of a few rows
//   gemm.h              the multithreaded driver
//   micro-kernel.h      what these share with attention
//
// ggml's own code handles everything else. This file is compiled in place of ggml's sgemm.cpp, which it includes with the
// replaced function renamed.

#define llamafile_sgemm ggml_stock_sgemm
#include "llamafile/sgemm.cpp"
#undef llamafile_sgemm

#include <atomic>

/** Set once ggml's code computes something whose rounding depends on the batch: on the number of its rows, or their order. */
std::atomic<bool> lookout_depends_on_batch = false;

/** Whether everything computed so far was batch-invariant: a row has the same bits in any batch. */
extern "C" bool lookout_is_batch_invariant(void) { return !lookout_depends_on_batch.load(std::memory_order_relaxed); }

/** Whether products with weights of this type are batch-invariant: by these kernels, or because ggml computes row by row. */
static bool is_batch_invariant(int type) {
    switch (type) {
        case GGML_TYPE_F32: case GGML_TYPE_F16: case GGML_TYPE_BF16:
        case GGML_TYPE_Q4_0: case GGML_TYPE_Q4_1: case GGML_TYPE_Q5_0: case GGML_TYPE_Q5_1: case GGML_TYPE_Q8_0:
        case GGML_TYPE_Q2_K: case GGML_TYPE_Q3_K: case GGML_TYPE_Q4_K: case GGML_TYPE_Q5_K: case GGML_TYPE_Q6_K:
        case GGML_TYPE_IQ4_NL: case GGML_TYPE_MXFP4:
            return true;
        default:
            return false;
    }
}

extern "C" bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A,
                                int64_t lda, const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype,
                                int Ctype);
extern "C" bool lookout_gemm_f16(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                 const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                 int64_t rows_stride, float * out, int64_t out_stride);
extern "C" bool lookout_gemm_f32(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const float * weights,
                                 int64_t weights_stride, const float * rows, int64_t rows_stride, float * out,
                                 int64_t out_stride);
/**
 * Products of experts. `ggml_compute_forward_mul_mat_id` calls this once it has quantised the rows and knows the rows
 * of each expert; see `gemm_experts`.
 * @returns whether the type of the weights is one of ours; if not, ggml multiplies them row by row.
 */
extern "C" bool lookout_mul_mat_id(const ggml_compute_params * params, const ggml_tensor * out, const int64_t * counts,
                                   const void * choices, void * next_chunk);

/**
 * GEMM of f16 weights (gemm-f16.cpp) or f32 weights (gemm-f32.cpp); ggml's for other types. ggml's sgemm leaves a
 * single row to a function that adds in another order, so it gets such a row twice.
 */
static bool other_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                        const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    const bool is_f16 = Atype == GGML_TYPE_F16 && Btype == GGML_TYPE_F16 && Ctype == GGML_TYPE_F32;
    if (is_f16 && lookout_gemm_f16(params, m, n, k, (const ggml_fp16_t *) A, lda, (const ggml_fp16_t *) B, ldb,
                                   (float *) C, ldc)) {
        return true;
    }
    const bool is_f32 = Atype == GGML_TYPE_F32 && Btype == GGML_TYPE_F32 && Ctype == GGML_TYPE_F32;
    if (is_f32 && lookout_gemm_f32(params, m, n, k, (const float *) A, lda, (const float *) B, ldb, (float *) C, ldc)) return true;
    if (n == 1) return ggml_stock_sgemm(params, m, 2, k, A, lda, B, 0, C, 0, Atype, Btype, Ctype);
    return ggml_stock_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

#if (defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)) || \
    (defined(__AVX2__) && defined(__FMA__) && defined(__F16C__))

#include "gemm.h"

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    if (!is_batch_invariant(Atype)) lookout_depends_on_batch.store(true, std::memory_order_relaxed);
    // ggml first asks with rows that it has not quantised yet.
    const bool is_quantised = Ctype == GGML_TYPE_F32 && (Btype == GGML_TYPE_Q8_0 || Btype == GGML_TYPE_Q8_K);
    const bool is_supported = is_quantised && with_blocks(Atype, A, [&](const auto * weights) {
        using Activation = typename QuantTraits<std::decay_t<decltype(*weights)>>::Activation;
        gemm(params, m, n, k, weights, lda, (const Activation *) B, ldb, (float *) C, ldc);
    });
    return is_supported || other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

bool lookout_mul_mat_id(const ggml_compute_params * params, const ggml_tensor * out, const int64_t * counts,
                        const void * choices, void * next_chunk) {
    const ggml_tensor & weights = *out->src[0];
    if (!is_batch_invariant(weights.type)) lookout_depends_on_batch.store(true, std::memory_order_relaxed);
    return with_blocks(weights.type, weights.data, [&](const auto * blocks) {
        using Block = std::decay_t<decltype(*blocks)>;
        gemm_experts<Block>(params, *out, params->wdata, counts, (const ExpertRow *) choices, *(std::atomic<int> *) next_chunk);
    });
}

/** Whether these kernels multiply quantised weights, unless the weights were repacked for ggml's. */
extern "C" bool lookout_has_gemm(void) {
    return true;
}

#else

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    return other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

bool lookout_mul_mat_id(const ggml_compute_params *, const ggml_tensor *, const int64_t *, const void *, void *) { return false; }

extern "C" bool lookout_has_gemm(void) { return false; }

#endif
