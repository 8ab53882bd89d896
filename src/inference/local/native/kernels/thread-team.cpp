// Wakes the other threads of a computation on processors other than the one that its first thread runs on.
//
// After a pause, Linux often wakes a sleeping thread on the processor of the thread that wakes it, although another one
// is idle, and moves it some ms later. Until then each waits for the other at every barrier, and a short text takes
// several times as long with two threads as with one. In a short computation, the threads stay apart until it ends. In
// others they may move once they have started, to get away from other programs.

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace {

/** Maximum number of placed threads; the system places further ones. */
constexpr int MOST_THREADS = 64;
/** After a shorter pause, the threads are still awake, or sleep where the last computation left them. */
constexpr std::chrono::milliseconds PAUSE(5);
/** Maximum duration of a short computation. */
constexpr std::chrono::milliseconds SHORT(5);
/** After this many short computations in a row, the next one is expected to be short. */
constexpr int SHORTS = 4;

/** The threads of the computations that one thread starts. */
struct Team {
    /** 0 if unknown. Only living threads: the system reuses their ids. */
    pid_t threads[MOST_THREADS] = {};
    std::chrono::steady_clock::time_point began, ended;
    /** After a pause, the processor that the threads must not wake on; otherwise -1. */
    int left_out = -1;
    /** Whether they stay off it for the whole computation. */
    bool stays = false;
    /** Number of consecutive short computations after pauses. */
    int shorts = 0;
    /** The processors of the first thread, and those of the others. */
    cpu_set_t processors, others;
};

}  // namespace

/** Call it in a thread before it starts a computation with others. @return its team, for the two functions below. */
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

/** Called by each thread of a team when it starts. */
extern "C" void lookout_join_team(void * of, int index) {
    static thread_local pid_t own = 0;
    Team & team = *(Team *) of;
    if (index == 0 || index >= MOST_THREADS) return;
    if (own == 0) own = (pid_t) syscall(SYS_gettid);
    const bool is_new = team.threads[index] != own;
    team.threads[index] = own;
    // A new thread may run on all processors.
    if (team.left_out < 0 || is_new != team.stays) return;
    sched_setaffinity(0, sizeof(cpu_set_t), team.stays ? &team.others : &team.processors);
}

/** Called by the thread that started the computation, after all have finished. */
extern "C" void lookout_leave_team(void * of) {
    Team & team = *(Team *) of;
    team.ended = std::chrono::steady_clock::now();
    if (team.left_out >= 0) team.shorts = team.ended - team.began < SHORT ? team.shorts + 1 : 0;
}
