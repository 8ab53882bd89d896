// Puts attention and GELU of our own in place of ggml's, where the processor has what it needs.
//
// ggml's own code handles everything else (ALiBi, sinks, other types). This file is compiled in place of
// ggml's ops.cpp, which it includes with the replaced functions renamed. cell-order.cpp replaces `set_rows`.

#include "gelu.h"

#define ggml_compute_forward_flash_attn_ext ggml_stock_flash_attn_ext
#define ggml_compute_forward_set_rows ggml_stock_set_rows
#include "ops.cpp"
#undef ggml_compute_forward_set_rows
#undef ggml_compute_forward_flash_attn_ext

#include "attention.h"
#include "encoder-attention.h"

#include <atomic>

extern std::atomic<bool> lookout_depends_on_company;

extern "C" void ggml_compute_forward_flash_attn_ext(const ggml_compute_params * params, ggml_tensor * dst);

void ggml_compute_forward_flash_attn_ext(const ggml_compute_params * params, ggml_tensor * dst) {
#if defined(LOOKOUT_ATTENTION)
    const Attention attention(dst);
    if (attention.is_ours() && !params->use_ref) return attention.run(params);
    const EncoderAttention encoder_attention(dst);
    if (encoder_attention.is_ours() && !params->use_ref) return encoder_attention.run(params);
    // Of a cache; what an encoder attends to depends on its picture alone.
    if (lookout_cell_stamps(dst->src[1]) != nullptr) lookout_depends_on_company.store(true, std::memory_order_relaxed);
#endif
    ggml_stock_flash_attn_ext(params, dst);
}
