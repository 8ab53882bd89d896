// Measures an iteration of libgomp's spin-wait. See `spin.ts`.

#include <algorithm>
#include <chrono>

namespace {

constexpr int ITERATIONS = 2000;
constexpr int ROUNDS = 5;

/** As libgomp's `cpu_relax`. */
inline void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

}  // namespace

/** Nanoseconds per spin iteration: the fastest of several rounds, as other programs may preempt some. */
extern "C" double lookout_spin_ns(void) {
    volatile int there = 0;
    double fastest = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const auto started = std::chrono::steady_clock::now();
        for (int i = 0; i < ITERATIONS && there == 0; i++) cpu_relax();
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - started;
        fastest = std::min(fastest, took.count() / ITERATIONS);
    }
    return fastest;
}
