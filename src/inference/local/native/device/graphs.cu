// Keeps CUDA graphs of steps of several shapes.
//
// ggml launches the kernels of a step one by one until it has seen the same step twice; it then records them as a CUDA graph
// and launches that. It has one recording for each first tensor, and the steps of a context all begin with the same: after each
// prompt, the next token takes 5 ms to launch and the one after it 3.4, instead of .3 (2B parameters, H200). With a recording for
// each shape of small steps, those that come back are launched at once. ggml drops what it has not used for 10 s.

#include <atomic>
#include <cstdint>

#include "ggml-impl.h"

namespace {

/** Larger steps take longer to compute than to launch, and two prompts seldom have the same length. */
constexpr int64_t MOST_ROWS = 32;
/** Attention comes early in a layer. */
constexpr int MOST_NODES = 64;

std::atomic<bool> is_on{false};

uint64_t mixed(uint64_t bits, int64_t with) {
    bits = (bits ^ (uint64_t) with) * 0x9e3779b97f4a7c15ull;
    return bits ^ (bits >> 29);
}

}  // namespace

/** Switches it on or off; off at first, as ggml has it. */
extern "C" void lookout_keep_graphs(bool on) { is_on = on; }

/** What ggml finds the recording of a graph by. Whether the recording fits, it compares by itself. */
const void * lookout_graph_key(const ggml_cgraph * graph) {
    const void * const first = graph->nodes[0];
    if (!is_on) return first;
    for (int at = 0; at < graph->n_nodes && at < MOST_NODES; at++) {
        const ggml_tensor * node = graph->nodes[at];
        if (node->op != GGML_OP_FLASH_ATTN_EXT) continue;
        const int64_t rows = node->src[0]->ne[1];
        if (rows > MOST_ROWS) return first;
        uint64_t bits = mixed((uint64_t) (uintptr_t) first, rows);
        bits = mixed(bits, node->src[1]->ne[1]);
        bits = mixed(bits, graph->n_nodes);
        bits = mixed(bits, graph->nodes[graph->n_nodes - 1]->ne[1]);
        return (const void *) (uintptr_t) bits;
    }
    return first;
}
