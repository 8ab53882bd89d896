// What attention.cpp tells of itself, which gemm.cpp defines. For builds without it.

#include <atomic>

std::atomic<bool> lookout_depends_on_batch = false;
