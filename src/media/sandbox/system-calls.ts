/** Processors with a filter, by Node's names. */
export type Processor = 'x64' | 'arm64'

/** Numbers of a system call; null if a processor does not have it. */
export type CallNumbers = Readonly<Record<Processor, number | null>>

const of = (x64: number | null, arm64: number | null): CallNumbers => ({ x64, arm64 })

/**
 * System calls that a decoder may make after it has loaded its code, the most frequent first. None of them opens a
 * file, creates a socket, starts a program or reaches another process. The numbers are those of Linux's `unistd.h`.
 */
export const ALLOWED: readonly CallNumbers[] = [
  // Descriptors that it holds: the pipes to its parent, the file of a task, and those of the event loop.
  of(0, 63), // read
  of(1, 64), // write
  of(17, 67), // pread64
  of(19, 65), // readv
  of(20, 66), // writev
  of(8, 62), // lseek
  of(3, 57), // close
  of(5, 80), // fstat
  of(72, 25), // fcntl
  of(47, 212), // recvmsg
  of(46, 211), // sendmsg
  of(45, 207), // recvfrom
  of(44, 206), // sendto
  of(48, 210), // shutdown
  of(232, null), // epoll_wait
  of(281, 22), // epoll_pwait
  of(441, 441), // epoll_pwait2
  of(233, 21), // epoll_ctl
  of(291, 20), // epoll_create1
  of(290, 19), // eventfd2
  of(293, 59), // pipe2
  of(7, null), // poll
  of(271, 73), // ppoll
  // Memory. V8 writes machine code, so it needs pages that can be executed.
  of(9, 222), // mmap
  of(11, 215), // munmap
  of(25, 216), // mremap
  of(10, 226), // mprotect
  of(28, 233), // madvise
  of(12, 214), // brk
  of(324, 283), // membarrier
  of(330, 289), // pkey_alloc
  of(329, 288), // pkey_mprotect
  of(331, 290), // pkey_free
  // Threads.
  of(202, 98), // futex
  of(273, 99), // set_robust_list
  of(334, 293), // rseq
  of(218, 96), // set_tid_address
  of(24, 124), // sched_yield
  of(204, 123), // sched_getaffinity
  of(143, 121), // sched_getparam
  of(145, 120), // sched_getscheduler
  of(315, 275), // sched_getattr
  of(314, 274), // sched_setattr
  of(146, 125), // sched_get_priority_max
  of(147, 126), // sched_get_priority_min
  of(309, 168), // getcpu
  of(60, 93), // exit
  of(231, 94), // exit_group
  // Signals to itself.
  of(13, 134), // rt_sigaction
  of(14, 135), // rt_sigprocmask
  of(15, 139), // rt_sigreturn
  of(131, 132), // sigaltstack
  of(219, 128), // restart_syscall
  // Time, randomness and identity.
  of(228, 113), // clock_gettime
  of(229, 114), // clock_getres
  of(230, 115), // clock_nanosleep
  of(35, 101), // nanosleep
  of(96, 169), // gettimeofday
  of(201, null), // time
  of(318, 278), // getrandom
  of(98, 165), // getrusage
  of(97, 163), // getrlimit
  of(99, 179), // sysinfo
  of(63, 160), // uname
  of(39, 172), // getpid
  of(110, 173), // getppid
  of(186, 178), // gettid
  of(102, 174), // getuid
  of(107, 175), // geteuid
  of(104, 176), // getgid
  of(108, 177), // getegid
]

/** Further calls for a process that gets connected sockets from its parent. It can neither create nor connect one. */
export const ALLOWED_OF_SOCKETS: readonly CallNumbers[] = [
  of(55, 209), // getsockopt
  of(51, 204), // getsockname
  of(52, 205), // getpeername
]

export const SETSOCKOPT = of(54, 208)
export const KILL = of(62, 129)
export const TGKILL = of(234, 131)
export const PRLIMIT = of(302, 261)
export const PRCTL = of(157, 167)
export const IOCTL = of(16, 29)
export const CLONE = of(56, 220)
export const CLONE3 = of(435, 435)
export const IO_URING_SETUP = of(425, 425)
export const SECCOMP = of(317, 277)
