// Products of quantised weights with many rows, for prompts and encoders.
//
// ggml multiplies quantised weights in whole numbers (its MMQ kernels), by instructions that use a part of a large card.
// There, it takes less time to write the weights out as bf16 and to have cuBLAS multiply them. On an H200, a prompt of 500
// tokens takes 13.5 ms instead of 22.8 (2B parameters in Q4_K_M), with half of the error or less: MMQ rounds rows to whole
// numbers of 8 bits. Bf16 has the range of f32, so nothing overflows.

#include <atomic>
#include <cstdint>

#include "ggml.h"
#include "common.cuh"

namespace {

/** From here on it was faster with Q4_K, Q6_K and Q8_0; from 96 rows on, with Q8_0 alone. */
constexpr int64_t FEWEST_ROWS = 128;

std::atomic<bool> is_on{false};

/**
 * Cards with far more bf16 than integer throughput through these instructions: A100, H100 and H200, B100 to B300. Measured
 * on an H200 only. Those of workstations and games have little bf16, and MMQ was written for them.
 */
bool is_large(int cc) { return cc == 800 || cc == 900 || cc == 1000 || cc == 1030; }

}  // namespace

/** Switches it on or off; off at first, as ggml has it. */
extern "C" void lookout_wide_products(bool on) { is_on = on; }

/** Whether ggml is to leave a product to cuBLAS. @param cc ggml's number of the card's compute capability. */
bool lookout_is_wide(const ggml_tensor * weights, const ggml_tensor * rows, const ggml_tensor * product, int cc) {
    if (!is_on || rows->ne[1] < FEWEST_ROWS || !is_large(cc)) return false;
    return ggml_is_quantized(weights->type) && ggml_is_contiguous(weights) && ggml_nrows(weights) == weights->ne[1] &&
           ggml_nrows(rows) == rows->ne[1] && product->op_params[0] != GGML_PREC_F32;
}
