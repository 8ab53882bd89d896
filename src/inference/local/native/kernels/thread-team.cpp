// Keeps the other threads of a computation away from the processor of the one that begins it.
//
// Linux often wakes a sleeping thread on the processor of the thread that wakes it, although another one is idle, and moves it
// some ms later. Until then each waits for the other at every barrier, and a short text takes several times as long with two
// threads as with one.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace {

/** Threads that are placed; further ones run where the system puts them. */
constexpr int MOST_THREADS = 64;

/** The threads that compute for one that begins computations. */
struct Team {
    /** 0 for one that is not known. Only threads that live: the system gives numbers again. */
    pid_t threads[MOST_THREADS] = {};
    cpu_set_t processors;
    /** The processor that they keep away from; -1 before the first computation, and where there is no other. */
    int avoided = -1;
};

}  // namespace

/** Called by a thread before it begins a computation with others. @return its team, for `lookout_join_team`. */
extern "C" void * lookout_place_team(int count) {
    static thread_local Team own;
    Team & team = own;
    // OpenMP ends threads that a smaller team does not need.
    std::fill(std::begin(team.threads) + std::min(count, MOST_THREADS), std::end(team.threads), 0);
    const int here = sched_getcpu();
    if (here == team.avoided) return &team;
    team.avoided = -1;
    if (here < 0 || sched_getaffinity(0, sizeof(team.processors), &team.processors) != 0) return &team;
    CPU_CLR(here, &team.processors);
    if (CPU_COUNT(&team.processors) == 0) return &team;
    team.avoided = here;
    for (const pid_t thread : team.threads) {
        if (thread != 0) sched_setaffinity(thread, sizeof(team.processors), &team.processors);
    }
    return &team;
}

/** Called by each thread of a team when it begins. */
extern "C" void lookout_join_team(void * of, int index) {
    static thread_local pid_t own = 0;
    Team & team = *(Team *) of;
    if (index == 0 || index >= MOST_THREADS || team.avoided < 0) return;
    if (own == 0) own = (pid_t) syscall(SYS_gettid);
    if (team.threads[index] == own) return;
    team.threads[index] = own;
    sched_setaffinity(0, sizeof(team.processors), &team.processors);
}
