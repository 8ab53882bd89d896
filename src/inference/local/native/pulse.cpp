// Signs of life of the engine's process. See `worker/engine-process.ts`.

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

/**
 * Writes a byte to `file` every `interval_ms` ms, until nobody reads it any more, from a thread of its own: it says that the
 * process runs, also while its main thread is inside a long call. A thread of JavaScript would take 10 MiB for this.
 */
extern "C" void lookout_start_pulse(int file, int interval_ms) {
    // Signals are for Node's threads. A new thread inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([=] {
        while (write(file, ".", 1) == 1 || errno == EINTR || errno == EAGAIN) {
            std::this_thread::sleep_for(std::chrono::milliseconds(interval_ms));
        }
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
