// Clears buffers by releasing their pages (MADV_DONTNEED).
//
// llama.cpp clears a new KV cache, and ggml does so by writing zeros. The whole cache is then resident, 96 MiB for the shipped
// model, though most servers use a small part of it. Released pages read as zeros too, and become resident one by one as cells
// are written.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "cell-order.h"

namespace {

/**
 * A buffer of more than 1/MAX_FRACTION of the machine's memory is written as before: a lack of memory must show when a model
 * is loaded, not later.
 */
constexpr size_t MAX_FRACTION = 16;

decltype(ggml_backend_buffer_type_i::alloc_buffer) stock_alloc = nullptr;
decltype(ggml_backend_buffer_i::clear) stock_clear = nullptr;

bool is_small(size_t bytes) {
    return bytes <= (size_t) sysconf(_SC_PHYS_PAGES) / MAX_FRACTION * (size_t) sysconf(_SC_PAGESIZE);
}

/** Releases anonymous private pages, such as malloc's, which then read as zeros. @return whether the system did it. */
bool release_pages(void * from, size_t bytes) { return madvise(from, bytes, MADV_DONTNEED) == 0; }

void clear_buffer(ggml_backend_buffer_t buffer, uint8_t value) {
    const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t) ggml_backend_buffer_get_base(buffer);
    const uintptr_t end = start + buffer->size;
    const uintptr_t first = (start + page - 1) / page * page;
    const uintptr_t last = end / page * page;
    if (value != 0 || first >= last || !is_small(buffer->size) || !release_pages((void *) first, last - first)) {
        stock_clear(buffer, value);
        return;
    }
    memset((void *) start, 0, first - start);
    memset((void *) last, 0, end - last);
}

ggml_backend_buffer_t alloc_buffer(ggml_backend_buffer_type_t type, size_t size) {
    ggml_backend_buffer_t buffer = stock_alloc(type, size);
    if (buffer == nullptr) return nullptr;
    stock_clear = buffer->iface.clear;
    buffer->iface.clear = clear_buffer;
    track_cell_order(buffer);
    return buffer;
}

}  // namespace

/**
 * From now on, ggml's new buffers in main memory are cleared by releasing pages, and track the write order of KV cells
 * (cell-order.h). The library must stay loaded.
 */
extern "C" void lookout_clear_with_zero_pages(void) {
    ggml_backend_buffer_type_t type = ggml_backend_cpu_buffer_type();
    if (type->iface.alloc_buffer == alloc_buffer) return;
    stock_alloc = type->iface.alloc_buffer;
    type->iface.alloc_buffer = alloc_buffer;
}
