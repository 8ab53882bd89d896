// Products of quantised weights and a batch of rows, for x86 with AVX-512 VNNI or AVX2. They replace those of ggml's sgemm.cpp for
// Q8_0, Q5_0, Q4_0, Q6_K, Q5_K and Q4_K.
//
// ggml's code reads the weights again for each few rows of a batch, sums across vectors for every block, and is at its
// slowest where the number of rows is no multiple of its tiles: 15 next tokens took longer than 16.
//
// Here, as many rows of weights as a vector has lanes become a panel: bytes in which a vector holds four neighbouring
// weights of each of them. An instruction then multiplies four weights with four values of a batch row in all lanes,
// without sums across lanes. Weights are read and unpacked once for all rows of a batch. For few
// rows, a panel costs more than it saves, and weights are multiplied as the file has them.
//
// A row's result does not depend on the other rows of the batch: the products of a block are summed as whole numbers, which is
// exact, and every way adds the blocks' scaled sums one after another. Of other types, see halves.cpp and `other_sgemm`.
//
//   product-blocks.h  how blocks of each type become bytes and scales
//   product-batch.h   the rows of the batch
//   product-wide.h    on vectors of 64 bytes: AVX-512 VNNI
//   product-few.h     few rows
//   product-tiles.h   larger batches of some types on AMX tiles (tiles.h)
//   product-narrow.h  on vectors of 32 bytes: AVX2, and AVX-VNNI
//   product.h         a product, shared by the threads
//
// ggml's own code handles everything else. This file is compiled in place of ggml's sgemm.cpp, which it includes with
// the replaced function renamed.

#define llamafile_sgemm ggml_stock_sgemm
#include "llamafile/sgemm.cpp"
#undef llamafile_sgemm

#include <atomic>

/** Set as soon as ggml's code computes what it rounds by how many rows there are, or by where they lie. */
std::atomic<bool> lookout_depends_on_company = false;

/** Whether a row has had the same bits in any batch, in all that was computed so far. */
extern "C" bool lookout_is_invariant(void) { return !lookout_depends_on_company.load(std::memory_order_relaxed); }

/** Whether products of these weights have the same bits in any batch: by code of ours, or row by row. */
static bool has_invariant_products(int type) {
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
extern "C" bool lookout_multiply_halves(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k,
                                        const ggml_fp16_t * weights, int64_t weights_stride, const ggml_fp16_t * rows,
                                        int64_t rows_stride, float * out, int64_t out_stride);

/**
 * Products of weights of f16 (halves.cpp), else ggml's. ggml's sgemm leaves a single row to a function that adds in another order,
 * so it gets such a row twice.
 */
static bool other_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                        const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    const bool is_ours = Atype == GGML_TYPE_F16 && Btype == GGML_TYPE_F16 && Ctype == GGML_TYPE_F32;
    if (is_ours && lookout_multiply_halves(params, m, n, k, (const ggml_fp16_t *) A, lda, (const ggml_fp16_t *) B, ldb,
                                           (float *) C, ldc)) {
        return true;
    }
    if (n == 1) return ggml_stock_sgemm(params, m, 2, k, A, lda, B, 0, C, 0, Atype, Btype, Ctype);
    return ggml_stock_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

#if (defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)) || \
    (defined(__AVX2__) && defined(__FMA__) && defined(__F16C__))

#include "product.h"

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    if (!has_invariant_products(Atype)) lookout_depends_on_company.store(true, std::memory_order_relaxed);
    const auto with = [&](const auto * weights) {
        using Row = typename Type<std::decay_t<decltype(*weights)>>::Row;
        product(params, m, n, k, weights, lda, (const Row *) B, ldb, (float *) C, ldc);
        return true;
    };
    if (Ctype == GGML_TYPE_F32 && Btype == GGML_TYPE_Q8_0) {
        if (Atype == GGML_TYPE_Q8_0) return with((const block_q8_0 *) A);
        if (Atype == GGML_TYPE_Q5_0) return with((const block_q5_0 *) A);
        if (Atype == GGML_TYPE_Q4_0) return with((const block_q4_0 *) A);
    }
    if (Ctype == GGML_TYPE_F32 && Btype == GGML_TYPE_Q8_K) {
        if (Atype == GGML_TYPE_Q4_K) return with((const block_q4_K *) A);
        if (Atype == GGML_TYPE_Q5_K) return with((const block_q5_K *) A);
        if (Atype == GGML_TYPE_Q6_K) return with((const block_q6_K *) A);
    }
    return other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

/** Whether products of quantised weights are computed here, unless the weights were rearranged for ggml's own code. */
extern "C" bool lookout_computes_products(void) {
    return true;
}

#else

bool llamafile_sgemm(const ggml_compute_params * params, int64_t m, int64_t n, int64_t k, const void * A, int64_t lda,
                     const void * B, int64_t ldb, void * C, int64_t ldc, int Atype, int Btype, int Ctype) {
    return other_sgemm(params, m, n, k, A, lda, B, ldb, C, ldc, Atype, Btype, Ctype);
}

extern "C" bool lookout_computes_products(void) { return false; }

#endif
