// Products of quantised weights with many rows, for prompts and encoders.
//
// ggml multiplies quantised weights in whole numbers (its MMQ kernels). On cards whose matrix units are much faster than that
// code, it takes less time to write the weights out as bf16 once and to have cuBLAS multiply them, from some hundred rows on.
// Values keep 8 bits of precision, as many as MMQ leaves to the rows. Bf16 has the range of f32, so nothing overflows.

#include <atomic>
#include <cstdint>

#include "ggml.h"
#include "common.cuh"

namespace {

/** Rows from which products are wide; 0 for never, as ggml has it. */
std::atomic<int64_t> fewest_rows{0};

}  // namespace

/** From then on, products of quantised weights with at least so many rows are computed in bf16; with none where it is 0. */
extern "C" void lookout_wide_products(int64_t rows) { fewest_rows = rows; }

/** Whether ggml is to leave a product to cuBLAS. @param cc ggml's number of the card's compute capability. */
bool lookout_is_wide(const ggml_tensor * weights, const ggml_tensor * rows, const ggml_tensor * product, int cc) {
    const int64_t fewest = fewest_rows;
    if (fewest == 0 || rows->ne[1] < fewest || cc < GGML_CUDA_CC_AMPERE || !GGML_CUDA_CC_IS_NVIDIA(cc)) return false;
    return ggml_is_quantized(weights->type) && ggml_is_contiguous(weights) && ggml_nrows(weights) == weights->ne[1] &&
           ggml_nrows(rows) == rows->ne[1] && product->op_params[0] != GGML_PREC_F32;
}
