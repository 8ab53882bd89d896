// Heartbeat of the engine process. See `worker/engine-process.ts`.

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

/**
 * Starts a thread that writes a byte to `file` every `interval_ms` ms until the reader closes it. It shows that the process runs
 * even while its main thread is inside a long call. A JavaScript worker thread would take 10 MiB.
 */
extern "C" void lookout_start_pulse(int file, int interval_ms) {
    // Node's threads handle signals: block them all in the new thread, which inherits the mask.
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
