// Wakes the other threads of a computation on other processors than that of the thread that begins it.
//
// After a pause, Linux often wakes a sleeping thread on the processor of the thread that wakes it, although another one is idle,
// and moves it some ms later. Until then each waits for the other at every barrier, and a short text takes several times as long
// with two threads as with one.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace {

/** Threads that are placed; further ones run where the system puts them. */
constexpr int MOST_THREADS = 64;
/** Computations with less between their beginnings find the threads awake, or where the last one has left them. */
constexpr std::chrono::milliseconds PAUSE(5);

/** The threads that compute for one that begins computations. */
struct Team {
    /** 0 for one that is not known. Only threads that live: the system gives numbers again. */
    pid_t threads[MOST_THREADS] = {};
    std::chrono::steady_clock::time_point began;
    /** Whether the threads have to return to all processors that they may use. */
    bool is_placed = false;
    cpu_set_t processors;
};

}  // namespace

/** Called by a thread before it begins a computation with others. @return its team, for `lookout_join_team`. */
extern "C" void * lookout_place_team(int count) {
    static thread_local Team own;
    Team & team = own;
    const auto now = std::chrono::steady_clock::now();
    const bool was_pause = now - team.began > PAUSE;
    team.began = now;
    team.is_placed = false;
    // OpenMP ends threads that a smaller team does not need.
    std::fill(std::begin(team.threads) + std::min(count, MOST_THREADS), std::end(team.threads), 0);
    const int here = sched_getcpu();
    if (!was_pause || here < 0 || sched_getaffinity(0, sizeof(cpu_set_t), &team.processors) != 0) return &team;
    cpu_set_t others = team.processors;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) == 0) return &team;
    team.is_placed = true;
    for (const pid_t thread : team.threads) {
        if (thread != 0) sched_setaffinity(thread, sizeof(others), &others);
    }
    return &team;
}

/** Called by each thread of a team when it begins. */
extern "C" void lookout_join_team(void * of, int index) {
    static thread_local pid_t own = 0;
    Team & team = *(Team *) of;
    if (index == 0 || index >= MOST_THREADS) return;
    if (own == 0) own = (pid_t) syscall(SYS_gettid);
    if (team.threads[index] == own && team.is_placed) sched_setaffinity(0, sizeof(cpu_set_t), &team.processors);
    team.threads[index] = own;
}
