// Caches CUDA graphs by the shape of a step.
//
// ggml launches the kernels of a step one by one until it has seen the same step twice; it then captures them as a CUDA graph
// and launches that. It caches one graph for each first tensor, and all steps of a context begin with the same one: after each
// prompt, the next token takes 5 ms to launch and the one after it 3.4, instead of .3 (2B parameters, H200). With a graph for
// each shape of small steps, shapes that recur are launched at once. ggml drops graphs that it has not used for 10 s.

#include <atomic>
#include <cstdint>

#include "ggml-impl.h"

namespace {

/** Larger steps take longer to compute than to launch, and prompts seldom have equal lengths. */
constexpr int64_t MAX_ROWS = 32;
/** Nodes that are searched for the first attention; it comes early in a layer. */
constexpr int MAX_NODES = 64;

std::atomic<bool> is_enabled{false};

uint64_t hash_combine(uint64_t bits, int64_t with) {
    bits = (bits ^ (uint64_t) with) * 0x9e3779b97f4a7c15ull;
    return bits ^ (bits >> 29);
}

}  // namespace

/** Switches it on or off; off at first, as ggml has it. */
extern "C" void lookout_keep_graphs(bool on) { is_enabled = on; }

/** ggml's cache key of a graph. ggml itself verifies that the cached graph fits. */
const void * lookout_graph_key(const ggml_cgraph * graph) {
    const void * const first = graph->nodes[0];
    if (!is_enabled) return first;
    for (int at = 0; at < graph->n_nodes && at < MAX_NODES; at++) {
        const ggml_tensor * node = graph->nodes[at];
        if (node->op != GGML_OP_FLASH_ATTN_EXT) continue;
        const int64_t rows = node->src[0]->ne[1];
        if (rows > MAX_ROWS) return first;
        uint64_t bits = hash_combine((uint64_t) (uintptr_t) first, rows);
        bits = hash_combine(bits, node->src[1]->ne[1]);
        bits = hash_combine(bits, graph->n_nodes);
        bits = hash_combine(bits, graph->nodes[graph->n_nodes - 1]->ne[1]);
        return (const void *) (uintptr_t) bits;
    }
    return first;
}
