// Tracks the order of cells: see cell-order.h. Cells are written by ggml's operation `set_rows`, which this file wraps, and by
// `ggml_backend_tensor_set` when a saved sequence is restored.

#include "cell-order.h"

#include "ggml-cpu-impl.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>

/** ggml's original: see attention.cpp. */
extern "C" void ggml_stock_set_rows(const ggml_compute_params * params, ggml_tensor * dst);
extern "C" void ggml_compute_forward_set_rows(const ggml_compute_params * params, ggml_tensor * dst);

namespace {

decltype(ggml_backend_buffer_i::free_buffer) stock_free = nullptr;
decltype(ggml_backend_buffer_i::set_tensor) stock_set = nullptr;

/** Orders by buffer: llama.cpp makes a buffer for each cache. Several threads may open and close contexts at once. */
std::mutex orders_mutex;
/** Never destroyed: a buffer may be freed while the process ends. */
auto & orders = *new std::unordered_map<ggml_backend_buffer_t, std::unique_ptr<CellOrder>>();

/** llama.cpp names them `cache_k_l0`, or with a tag before the `k`. Caches with a stream for each sequence are not supported. */
bool is_kv_cache_keys(const ggml_tensor * tensor) {
    return tensor->view_src == nullptr && strncmp(tensor->name, "cache_", 6) == 0 &&
           strstr(tensor->name + 6, "k_l") != nullptr && tensor->ne[2] == 1;
}

ggml_status init_tensor(ggml_backend_buffer_t buffer, ggml_tensor * tensor) {
    if (!is_kv_cache_keys(tensor)) return GGML_STATUS_SUCCESS;
    const std::lock_guard<std::mutex> lock(orders_mutex);
    std::unique_ptr<CellOrder> & order = orders[buffer];
    if (order == nullptr) order.reset(new CellOrder{tensor, 0, std::vector<uint64_t>(tensor->ne[1])});
    if ((int64_t) order->stamps.size() == tensor->ne[1]) tensor->extra = order.get();
    return GGML_STATUS_SUCCESS;
}

void free_buffer(ggml_backend_buffer_t buffer) {
    {
        const std::lock_guard<std::mutex> lock(orders_mutex);
        orders.erase(buffer);
    }
    stock_free(buffer);
}

/** The order that a write to a tensor updates; null for all but the first layer's keys of a cache. */
CellOrder * order_of(const ggml_tensor * tensor) {
    const ggml_tensor * keys = tensor->view_src != nullptr ? tensor->view_src : tensor;
    auto * order = (CellOrder *) keys->extra;
    return order != nullptr && order->first == keys ? order : nullptr;
}

void set_tensor(ggml_backend_buffer_t buffer, ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    stock_set(buffer, tensor, data, offset, size);
    CellOrder * order = order_of(tensor);
    if (order == nullptr) return;
    const size_t row = order->first->nb[1];
    const size_t start = tensor->view_offs + offset;
    for (size_t cell = start / row; cell * row < start + size; cell++) order->stamps[cell] = ++order->writes;
}

}  // namespace

void track_cell_order(ggml_backend_buffer_t buffer) {
    stock_free = buffer->iface.free_buffer;
    stock_set = buffer->iface.set_tensor;
    buffer->iface.free_buffer = free_buffer;
    buffer->iface.set_tensor = set_tensor;
    buffer->iface.init_tensor = init_tensor;
}

void ggml_compute_forward_set_rows(const ggml_compute_params * params, ggml_tensor * dst) {
    ggml_stock_set_rows(params, dst);
    // One thread counts the rows of all threads. A barrier follows each operation.
    CellOrder * order = params->ith == 0 ? order_of(dst) : nullptr;
    if (order == nullptr) return;
    const ggml_tensor * cells = dst->src[1];
    for (int64_t i = 0; i < cells->ne[0]; i++) {
        const char * at = (const char *) cells->data + i * cells->nb[0];
        const int64_t cell = cells->type == GGML_TYPE_I64 ? *(const int64_t *) at : *(const int32_t *) at;
        order->stamps[cell] = ++order->writes;
    }
}
