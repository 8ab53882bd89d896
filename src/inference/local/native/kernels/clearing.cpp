// Buffers that are cleared by giving their pages back.
//
// llama.cpp clears a KV cache when it makes it, and ggml does so by writing zeros: all of it is in memory from then on,
// 96 MiB for the shipped model, though most servers use a small part. Pages that are given back to the system read as
// zeros too, and come back one by one when cells are written.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "cell-order.h"

namespace {

/**
 * A buffer of more than this share of the machine is written as before: whether memory suffices must show when a model
 * is loaded, not in the middle of its work.
 */
constexpr size_t LARGEST_SHARE = 16;

decltype(ggml_backend_buffer_type_i::alloc_buffer) stock_alloc = nullptr;
decltype(ggml_backend_buffer_i::clear) stock_clear = nullptr;

bool is_small(size_t bytes) {
    return bytes <= (size_t) sysconf(_SC_PHYS_PAGES) / LARGEST_SHARE * (size_t) sysconf(_SC_PAGESIZE);
}

/** Private pages of no file, as ggml has them from malloc, are zero afterwards. @return whether the system did it. */
bool release(void * from, size_t bytes) { return madvise(from, bytes, MADV_DONTNEED) == 0; }

void clear(ggml_backend_buffer_t buffer, uint8_t value) {
    const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t) ggml_backend_buffer_get_base(buffer);
    const uintptr_t end = start + buffer->size;
    const uintptr_t first = (start + page - 1) / page * page;
    const uintptr_t last = end / page * page;
    if (value != 0 || first >= last || !is_small(buffer->size) || !release((void *) first, last - first)) {
        stock_clear(buffer, value);
        return;
    }
    memset((void *) start, 0, first - start);
    memset((void *) last, 0, end - last);
}

ggml_backend_buffer_t alloc(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = stock_alloc(type, size);
    if (buffer == nullptr) return nullptr;
    stock_clear = buffer->iface.clear;
    buffer->iface.clear = clear;
    keep_cell_order(buffer);
    return buffer;
}

}  // namespace

/**
 * Changes ggml's buffers in main memory that are made from now on: how they are cleared, and that they keep the order of
 * a cache's cells (cell-order.h). The library must stay loaded.
 */
extern "C" void lookout_clear_by_releasing(void) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    if (type->iface.alloc_buffer == alloc) return;
    stock_alloc = type->iface.alloc_buffer;
    type->iface.alloc_buffer = alloc;
}
