// GEMM of quantised weights with many rows, for prompts and encoders: dequantises to bf16 and calls cuBLAS.
//
// ggml multiplies quantised weights as integers (its MMQ kernels), with instructions that use a fraction of a large card's
// throughput. There, dequantising the weights to bf16 for cuBLAS is faster. On an H200, a prompt of 500 tokens takes 13.5 ms
// instead of 22.8 (2B parameters in Q4_K_M), with at most half of the error: MMQ quantises rows to 8 bits. Bf16 has the range of
// f32, so nothing overflows.

#include <atomic>
#include <cstdint>

#include "ggml.h"
#include "common.cuh"

namespace {

/** Minimum rows at which it was faster with Q4_K, Q6_K and Q8_0; with Q8_0 alone, 96. */
constexpr int64_t MIN_ROWS = 128;

std::atomic<bool> is_enabled{false};

/**
 * Data centre cards, with far more bf16 than integer throughput through these instructions: A100, H100 and H200, B100 to B300.
 * Measured on an H200 only. Workstation and consumer cards have little bf16 throughput, and MMQ was written for them.
 */
bool has_fast_bf16(int cc) { return cc == 800 || cc == 900 || cc == 1000 || cc == 1030; }

}  // namespace

/** Switches it on or off; off at first, as ggml has it. */
extern "C" void lookout_use_bf16_gemm(bool on) { is_enabled = on; }

/** Whether ggml should call cuBLAS for a product. @param cc ggml's number of the compute capability. */
bool lookout_prefers_bf16_gemm(const ggml_tensor * weights, const ggml_tensor * rows, const ggml_tensor * product, int cc) {
    if (!is_enabled || rows->ne[1] < MIN_ROWS || !has_fast_bf16(cc)) return false;
    return ggml_is_quantized(weights->type) && ggml_is_contiguous(weights) && ggml_nrows(weights) == weights->ne[1] &&
           ggml_nrows(rows) == rows->ne[1] && product->op_params[0] != GGML_PREC_F32;
}
