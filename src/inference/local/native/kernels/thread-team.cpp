// Wakes the other threads of a computation on other processors than that of the thread that begins it.
//
// After a pause, Linux often wakes a sleeping thread on the processor of the thread that wakes it, although another one is idle,
// and moves it some ms later. Until then each waits for the other at every barrier, and a short text takes several times as long
// with two threads as with one. In a short computation the threads stay apart to the end. In others they are free when they begin,
// so that they can move away from other programs.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace {

/** Threads that are placed; further ones run where the system puts them. */
constexpr int MOST_THREADS = 64;
/** After less of it the threads are awake, or sleep where the last computation left them. */
constexpr std::chrono::milliseconds PAUSE(5);
/** The most that a short computation takes. */
constexpr std::chrono::milliseconds SHORT(5);
/** After this many short computations, the next one is expected to be short. */
constexpr int SHORTS = 4;

/** The threads that compute for one that begins computations. */
struct Team {
    /** 0 for one that is not known. Only threads that live: the system gives numbers again. */
    pid_t threads[MOST_THREADS] = {};
    std::chrono::steady_clock::time_point began, ended;
    /** The processor that the threads do not wake on, after a pause; otherwise -1. */
    int left_out = -1;
    /** Whether they keep off it in the whole computation. */
    bool stays = false;
    /** Computations after a pause since one of them was not short. */
    int shorts = 0;
    /** Those of the thread that begins, and those of the others. */
    cpu_set_t processors, others;
};

}  // namespace

/** Called by a thread before it begins a computation with others. @return its team, for the two functions below. */
extern "C" void * lookout_place_team(int count) {
    static thread_local Team own;
    Team & team = own;
    // OpenMP ends threads that a smaller team does not need.
    std::fill(std::begin(team.threads) + std::min(count, MOST_THREADS), std::end(team.threads), 0);
    team.began = std::chrono::steady_clock::now();
    const int here = team.began - team.ended > PAUSE ? sched_getcpu() : -1;
    const bool are_free = !team.stays;
    team.left_out = here;
    team.stays = here >= 0 && team.shorts >= SHORTS;
    if (here < 0 && are_free) return &team;
    if (sched_getaffinity(0, sizeof(cpu_set_t), &team.processors) != 0) return &team;
    team.others = team.processors;
    if (here >= 0) CPU_CLR(here, &team.others);
    if (CPU_COUNT(&team.others) == 0) return &team;
    for (const pid_t thread : team.threads) {
        if (thread != 0) sched_setaffinity(thread, sizeof(cpu_set_t), &team.others);
    }
    return &team;
}

/** Called by each thread of a team when it begins. */
extern "C" void lookout_join_team(void * of, int index) {
    static thread_local pid_t own = 0;
    Team & team = *(Team *) of;
    if (index == 0 || index >= MOST_THREADS) return;
    if (own == 0) own = (pid_t) syscall(SYS_gettid);
    const bool is_new = team.threads[index] != own;
    team.threads[index] = own;
    // A new thread may use all processors.
    if (team.left_out < 0 || is_new != team.stays) return;
    sched_setaffinity(0, sizeof(cpu_set_t), team.stays ? &team.others : &team.processors);
}

/** Called by the thread that began the computation, when all have ended it. */
extern "C" void lookout_leave_team(void * of) {
    Team & team = *(Team *) of;
    team.ended = std::chrono::steady_clock::now();
    if (team.left_out >= 0) team.shorts = team.ended - team.began < SHORT ? team.shorts + 1 : 0;
}
