// How long a thread of OpenMP waits between two looks for the others. See `spin.ts`.

#include <algorithm>
#include <chrono>

namespace {

constexpr int LOOKS = 2000;
constexpr int ROUNDS = 5;

/** As libgomp's `cpu_relax`. */
inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

}  // namespace

/** Nanoseconds of one look. The fastest round counts: other programs may have taken the core in the others. */
extern "C" double lookout_look_ns(void) {
    volatile int there = 0;
    double fastest = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const auto started = std::chrono::steady_clock::now();
        for (int i = 0; i < LOOKS && there == 0; i++) relax();
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - started;
        fastest = std::min(fastest, took.count() / LOOKS);
    }
    return fastest;
}
