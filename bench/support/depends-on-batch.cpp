// What attention.cpp and ggml use of gemm.cpp. For builds without it.

#include <atomic>

std::atomic<bool> lookout_depends_on_batch = false;
/** With any arguments, so that ggml multiplies with experts itself. */
extern "C" bool lookout_mul_mat_id(void) { return false; }
