// The order in which the cells of a KV cache were written.
//
// llama.cpp puts a sequence's next token into any cell that is free: later tokens may lie before earlier ones, depending on
// what was served before. Attention that sums cells by their numbers then rounds differently. So each cell of a cache has
// the number of its last write, a stamp: of two cells of a sequence, the later token's has the higher stamp.
//
// One list serves all layers of a cache: llama.cpp writes the same cells of each layer, in the same order, and those of the
// first layer before any layer reads them.

#pragma once

#include "ggml-backend-impl.h"

#include <cstdint>
#include <vector>

/** The list of a cache. The `extra` of each layer's key tensor points to it. */
struct CellOrder {
    /** The keys of the cache's first layer. Only writes to them count. */
    const ggml_tensor * first;
    uint64_t writes = 0;
    /** [cell]; 0 for a cell that was never written. */
    std::vector<uint64_t> stamps;
};

/**
 * Stamps of the cells that a view of a cache's keys begins with: [cell of the view]. They stay where they are while the cache
 * exists, and are complete as soon as ggml has written the first layer's keys. Cells that hold something have different ones.
 * @param k keys as attention gets them. @return null where no order is kept: for other tensors, and on a GPU.
 */
extern "C" [[gnu::used]] inline const uint64_t * lookout_cell_stamps(const ggml_tensor * k) {
    const ggml_tensor * keys = k->view_src != nullptr ? k->view_src : k;
    const auto * order = (const CellOrder *) keys->extra;
    return order == nullptr ? nullptr : order->stamps.data() + k->view_offs / keys->nb[1];
}

/** Has a new buffer of ggml's in main memory keep the order of the caches that are put into it. */
void keep_cell_order(ggml_backend_buffer_t buffer);
