// Replaces ggml's attention and GELU where the processor has AVX2 or AVX-512.
//
// ggml's own code handles everything else (ALiBi, other types). This file is compiled in place of ggml's ops.cpp, which it
// includes with the replaced functions renamed. cell-order.cpp replaces `set_rows`.

#include "gelu.h"

#define ggml_compute_forward_flash_attn_ext ggml_stock_flash_attn_ext
#define ggml_compute_forward_set_rows ggml_stock_set_rows
#define ggml_compute_forward_solve_tri ggml_stock_solve_tri
#include "ops.cpp"
#undef ggml_compute_forward_solve_tri
#undef ggml_compute_forward_set_rows
#undef ggml_compute_forward_flash_attn_ext

#include "attention.h"
#include "encoder-attention.h"

#include <atomic>

extern std::atomic<bool> lookout_depends_on_batch;

extern "C" void ggml_compute_forward_flash_attn_ext(const ggml_compute_params * params, ggml_tensor * dst);

void ggml_compute_forward_flash_attn_ext(const ggml_compute_params * params, ggml_tensor * dst) {
#if defined(LOOKOUT_ATTENTION)
    const EncoderAttention encoder_attention(dst);
    if (encoder_attention.is_supported() && !params->use_ref) return encoder_attention.run(params);
    const Attention attention(dst);
    if (attention.is_supported() && !params->use_ref) return attention.run(params);
    // Over a KV cache, or among the texts of a batch. Without a mask, what a row attends to depends on its image alone.
    if (dst->src[3] != nullptr) lookout_depends_on_batch.store(true, std::memory_order_relaxed);
#endif
    ggml_stock_flash_attn_ext(params, dst);
}

/** Recurrent layers that are computed in chunks of tokens, not token by token, depend on where a prompt is cut. */
extern "C" void ggml_compute_forward_solve_tri(const ggml_compute_params * params, ggml_tensor * dst);

void ggml_compute_forward_solve_tri(const ggml_compute_params * params, ggml_tensor * dst) {
    lookout_depends_on_batch.store(true, std::memory_order_relaxed);
    ggml_stock_solve_tri(params, dst);
}
