/**
 * The system calls of a sandbox, as data. What is not named here is answered ENOSYS, so that a newer libc falls back to an
 * older call; what an attack would try is named and answered EPERM. Names are Linux's, for x86-64 and arm64 alike; a runtime
 * skips those its architecture lacks.
 */

/** Ordinary work of shells, compilers, interpreters, git and of init itself. */
export const allowedCalls: readonly string[] = [
  // files
  ...'access faccessat faccessat2 open openat openat2 creat close close_range read readv pread64 preadv preadv2'.split(
    ' ',
  ),
  ...'write writev pwrite64 pwritev pwritev2 lseek _llseek dup dup2 dup3 fcntl fcntl64 flock fsync fdatasync'.split(
    ' ',
  ),
  ...'sync syncfs sync_file_range truncate truncate64 ftruncate ftruncate64 fallocate fadvise64 readahead'.split(' '),
  ...'copy_file_range sendfile sendfile64 splice tee stat stat64 lstat lstat64 fstat fstat64'.split(' '),
  ...'newfstatat fstatat64 statx statfs statfs64 fstatfs fstatfs64 getdents getdents64 getcwd chdir fchdir'.split(' '),
  ...'mkdir mkdirat mknod mknodat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat'.split(
    ' ',
  ),
  ...'readlink readlinkat chmod fchmod fchmodat fchmodat2 chown chown32 fchown fchown32 fchownat lchown lchown32'.split(
    ' ',
  ),
  ...'umask utime utimes utimensat futimesat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr'.split(' '),
  ...'setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr'.split(' '),
  ...'inotify_init inotify_init1 inotify_add_watch inotify_rm_watch memfd_create'.split(' '),
  // memory
  ...'brk mmap mmap2 mremap munmap mprotect madvise mincore msync mlock mlock2 munlock munlockall membarrier'.split(
    ' ',
  ),
  ...'pkey_alloc pkey_free pkey_mprotect shmget shmat shmctl shmdt get_mempolicy cachestat map_shadow_stack'.split(' '),
  // processes and threads (clone is below, by its flags)
  ...'fork vfork execve execveat exit exit_group wait4 waitid waitpid kill tkill tgkill getpid getppid gettid'.split(
    ' ',
  ),
  ...'getpgid getpgrp setpgid getsid setsid prctl arch_prctl set_tid_address set_robust_list get_robust_list rseq'.split(
    ' ',
  ),
  ...'set_thread_area get_thread_area futex futex_waitv futex_wake futex_wait futex_requeue pidfd_open pidfd_send_signal'.split(
    ' ',
  ),
  ...'getrusage times getrlimit ugetrlimit setrlimit prlimit64 getpriority setpriority ioprio_get ioprio_set'.split(
    ' ',
  ),
  ...'sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler sched_get_priority_max'.split(
    ' ',
  ),
  ...'sched_get_priority_min sched_rr_get_interval sched_getattr getcpu restart_syscall'.split(' '),
  // identity (the kernel allows what the capabilities do)
  ...'getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getgroups getgroups32 getresuid'.split(' '),
  ...'getresuid32 getresgid getresgid32 setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32'.split(
    ' ',
  ),
  ...'setresuid setresuid32 setresgid setresgid32 setgroups setgroups32 setfsuid setfsuid32 setfsgid setfsgid32'.split(
    ' ',
  ),
  ...'capget capset seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self'.split(' '),
  // signals and time
  ...'rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64'.split(
    ' ',
  ),
  ...'rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack sigreturn sigaction sigprocmask pause alarm nanosleep'.split(' '),
  ...'clock_nanosleep clock_nanosleep_time64 clock_gettime clock_gettime64 clock_getres clock_getres_time64'.split(' '),
  ...'gettimeofday time getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64'.split(
    ' ',
  ),
  ...'timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64'.split(
    ' ',
  ),
  ...'signalfd signalfd4 eventfd eventfd2'.split(' '),
  // waiting
  ...'poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 epoll_create epoll_create1 epoll_ctl'.split(
    ' ',
  ),
  ...'epoll_wait epoll_pwait epoll_pwait2'.split(' '),
  // sockets (socket and socketpair are below, by their family) and other ways to talk
  ...'bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown send sendto sendmsg'.split(
    ' ',
  ),
  ...'sendmmsg recv recvfrom recvmsg recvmmsg recvmmsg_time64 pipe pipe2 msgget msgctl msgsnd msgrcv semget semctl'.split(
    ' ',
  ),
  ...'semop semtimedop semtimedop_time64 mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr'.split(
    ' ',
  ),
  // facts
  ...'uname sysinfo getrandom ustat sysfs'.split(' '),
];

/** What attacks reach for, and nothing we run needs. */
export const deniedCalls: readonly string[] = [
  // other processes' memory (PX-06)
  ...'ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise process_mrelease'.split(' '),
  // mounts and roots (FS-13)
  ...'mount umount umount2 pivot_root open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr'.split(' '),
  // namespaces (PX-08)
  'setns',
  // keyrings are not namespaced (PX-14)
  ...'add_key request_key keyctl'.split(' '),
  // kernel machinery (PX-13)
  ...'bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register kexec_load kexec_file_load'.split(
    ' ',
  ),
  ...'init_module finit_module delete_module create_module query_module acct swapon swapoff quotactl quotactl_fd reboot'.split(
    ' ',
  ),
  ...'syslog fanotify_init fanotify_mark lookup_dcookie nfsservctl vhangup uselib'.split(' '),
  // clocks and names (PX-32, PX-11)
  ...'settimeofday stime clock_settime clock_settime64 clock_adjtime clock_adjtime64 adjtimex sethostname setdomainname'.split(
    ' ',
  ),
  // raw hardware, odd memory, NUMA
  ...'iopl ioperm modify_ldt vm86 vm86old remap_file_pages mbind set_mempolicy set_mempolicy_home_node'.split(' '),
  ...'migrate_pages move_pages memfd_secret mlockall'.split(' '),
  // pages given away while others still see them (FS-34); kernel AIO, whose number is counted for the whole host
  ...'vmsplice io_setup io_submit io_getevents io_pgetevents io_cancel io_destroy'.split(' '),
  // handles reach past mount points (PX-11)
  ...'name_to_handle_at open_by_handle_at'.split(' '),
];

/** CLONE_NEW* flags that clone and unshare can carry: NS, CGROUP, UTS, IPC, USER, PID, NET (linux/sched.h). */
export const namespaceFlags = 0x7e02_0000;
/** CLONE_NEWTIME: unshare only; in clone these bits are the exit signal. */
export const timeNamespaceFlag = 0x80;
