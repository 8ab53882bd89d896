// Tracks the order in which the cells of a KV cache were written.
//
// llama.cpp puts a sequence's next token into any free cell: later tokens may lie before earlier ones, depending on what was
// served before. Attention that sums cells in index order would then round differently. So each cell has a stamp, the number of
// its last write: of two cells of a sequence, that of the later token has the higher stamp.
//
// All layers of a cache share one list: llama.cpp writes the same cells of each layer in the same order, and those of the first
// layer before any layer reads them.

#pragma once

#include "ggml-backend-impl.h"

#include <cstdint>
#include <vector>

/** The stamps of a cache. `extra` of each layer's key tensor points to them. */
struct CellOrder {
    /** The keys of the cache's first layer. Only writes to them are counted. */
    const ggml_tensor * first;
    uint64_t writes = 0;
    /** [cell]; 0 for a cell that was never written. */
    std::vector<uint64_t> stamps;
};

/**
 * Returns the stamps of the cells of a view of a cache's keys: [cell of the view]. The pointer is valid while the cache
 * exists; the stamps are complete once ggml has written the first layer's keys. Stamps of cells in use are distinct.
 * @param k keys as attention gets them. @return null if no order is tracked: for other tensors, and on a GPU.
 */
extern "C" [[gnu::used]] inline const uint64_t * lookout_cell_stamps(const ggml_tensor * k) {
    const ggml_tensor * keys = k->view_src != nullptr ? k->view_src : k;
    const auto * order = (const CellOrder *) keys->extra;
    return order == nullptr ? nullptr : order->stamps.data() + k->view_offs / keys->nb[1];
}

/** Tracks the cell order of the KV caches in a new buffer of ggml's in main memory. */
void track_cell_order(ggml_backend_buffer_t buffer);
