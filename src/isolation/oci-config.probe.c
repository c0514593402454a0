/*
 * PID 1 of a container started from a rendered configuration: says what it finds, one "key value" a line, and ends.
 * "call <name> <answer>": what one raw system call was answered, as an errno number, 0 for success.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

#define UPPER (1UL << 32)

static void say(const char *name, long result)
{
	printf("call %s %d\n", name, result < 0 ? errno : 0);
	fflush(stdout);
}

/* One raw call in a child of its own: what it changes, or dies of, stays there. */
static void call(const char *name, long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alarm(5);
		long result = syscall(number, a, b, c, d, 0UL, 0UL);
		_exit(result < 0 ? errno : 0);
	}
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) < 0)
		printf("call %s lost\n", name);
	else if (WIFSIGNALED(status))
		printf("call %s signal-%d\n", name, WTERMSIG(status));
	else
		printf("call %s %d\n", name, WEXITSTATUS(status));
}

/* A copy of a file, line by line, under a key. */
static void show(const char *key, const char *path)
{
	char line[4096];
	FILE *file = fopen(path, "re");
	if (file == NULL) {
		printf("%s errno-%d\n", key, errno);
		return;
	}
	while (fgets(line, sizeof line, file) != NULL)
		printf("%s %s%s", key, line, strchr(line, '\n') == NULL ? "\n" : "");
	fclose(file);
}

/* A file (links are seen where they lead) that opens for writing, and is not the /dev/null that a runtime masks files with. Processes are their own. */
static int show_writable(const char *path, const struct stat *info, int type, struct FTW *place)
{
	(void)type, (void)place;
	const char *name = strncmp(path, "/proc/", 6) == 0 ? path + 6 : "";
	if ((name[0] >= '0' && name[0] <= '9') || strcmp(name, "self") == 0 || strcmp(name, "thread-self") == 0)
		return FTW_SKIP_SUBTREE;
	if (S_ISDIR(info->st_mode) || S_ISLNK(info->st_mode) || (S_ISCHR(info->st_mode) && info->st_rdev == makedev(1, 3)))
		return FTW_CONTINUE;
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		printf("writable %s\n", path);
		close(fd);
	}
	return FTW_CONTINUE;
}

/* How many bytes of a file, or names of a folder, are to be had: 0 for what is masked or absent. */
static void show_readable(const char *path)
{
	char bytes[64];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	long count = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
	if (fd >= 0)
		close(fd);
	DIR *folder = opendir(path);
	if (folder != NULL) {
		count = -2;
		while (readdir(folder) != NULL)
			count++;
		closedir(folder);
	}
	printf("readable %s %ld\n", path, count < 0 ? 0 : count);
}

static void denied_calls(void)
{
	static const char nothing[1] = "";
	unsigned long empty = (unsigned long)nothing;
#define DENIED(name) call(#name, SYS_##name, 0, 0, 0, 0)
	DENIED(ptrace), DENIED(process_vm_readv), DENIED(process_vm_writev), DENIED(kcmp), DENIED(pidfd_getfd);
	DENIED(mount), DENIED(umount2), DENIED(pivot_root), DENIED(open_tree), DENIED(move_mount), DENIED(fsopen);
	DENIED(fsconfig), DENIED(fsmount), DENIED(fspick), DENIED(mount_setattr), DENIED(setns);
	DENIED(add_key), DENIED(request_key), DENIED(keyctl);
	DENIED(bpf), DENIED(perf_event_open), DENIED(userfaultfd), DENIED(kexec_load), DENIED(kexec_file_load);
	DENIED(io_uring_setup), DENIED(io_uring_enter), DENIED(io_uring_register);
	DENIED(init_module), DENIED(finit_module), DENIED(delete_module), DENIED(acct), DENIED(swapon), DENIED(swapoff);
	DENIED(quotactl), DENIED(reboot), DENIED(syslog), DENIED(fanotify_init), DENIED(vhangup);
	DENIED(settimeofday), DENIED(clock_settime), DENIED(clock_adjtime), DENIED(adjtimex);
	DENIED(sethostname), DENIED(setdomainname), DENIED(name_to_handle_at), DENIED(open_by_handle_at);
	DENIED(mbind), DENIED(set_mempolicy), DENIED(migrate_pages), DENIED(move_pages), DENIED(mlockall);
	DENIED(sched_setattr);
#ifdef __x86_64__
	DENIED(iopl), DENIED(ioperm), DENIED(modify_ldt);
#endif
#undef DENIED
	call("chroot", SYS_chroot, (unsigned long)"/", 0, 0, 0);
	call("mknod-device", SYS_mknodat, (unsigned long)AT_FDCWD, (unsigned long)"/disk", S_IFBLK | 0600, 0x0801);
	call("clone3", SYS_clone3, empty, 0, 0, 0);
	call("unknown", 9999, 0, 0, 0, 0);
	call("personality-no-random", SYS_personality, 0x40000, 0, 0, 0);
}

static void namespace_calls(void)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} flags[] = {
		{"mount", 0x00020000}, {"cgroup", 0x02000000}, {"uts", 0x04000000}, {"ipc", 0x08000000},
		{"user", 0x10000000},  {"pid", 0x20000000},    {"net", 0x40000000}, {"time", 0x80},
	};
	char name[64];
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		snprintf(name, sizeof name, "unshare-%s", flags[i].name);
		call(name, SYS_unshare, flags[i].flag, 0, 0, 0);
		if (flags[i].flag == 0x80) /* part of the exit signal in clone */
			continue;
		snprintf(name, sizeof name, "clone-%s", flags[i].name);
		call(name, SYS_clone, flags[i].flag | SIGCHLD, 0, 0, 0);
		snprintf(name, sizeof name, "clone-%s-upper-bits", flags[i].name);
		call(name, SYS_clone, UPPER | flags[i].flag | SIGCHLD, 0, 0, 0);
	}
	call("unshare-mix", SYS_unshare, 0x10000000 | 0x00000400, 0, 0, 0);
}

static void socket_calls(void)
{
	char name[64];
	for (unsigned long family = 0; family <= 46; family++) {
		snprintf(name, sizeof name, "family-%lu", family);
		if (family != AF_NETLINK)
			call(name, SYS_socket, family, SOCK_STREAM, 0, 0);
	}
	for (unsigned long protocol = 0; protocol <= 22; protocol++) {
		snprintf(name, sizeof name, "netlink-%lu", protocol);
		call(name, SYS_socket, AF_NETLINK, SOCK_RAW, protocol, 0);
	}
	call("vsock-upper-bits", SYS_socket, UPPER | 40, SOCK_STREAM, 0, 0);
	call("netlink-audit-upper-bits", SYS_socket, AF_NETLINK, SOCK_RAW, UPPER | 9, 0);
	static const unsigned long protocols[] = {1, 33, 58, 115, 132, 136, 256, 262};
	for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
		for (unsigned long kind = SOCK_STREAM; kind <= SOCK_DCCP; kind++) {
			snprintf(name, sizeof name, "inet-%lu-%lu", kind, protocols[i]);
			call(name, SYS_socket, AF_INET, kind, protocols[i], 0);
			snprintf(name, sizeof name, "inet6-%lu-%lu", kind, protocols[i]);
			call(name, SYS_socket, AF_INET6, kind, protocols[i], 0);
		}
	call("inet-sctp-upper-bits", SYS_socket, AF_INET, SOCK_STREAM, UPPER | 132, 0);
	call("raw-icmp", SYS_socket, AF_INET, SOCK_RAW, 1, 0);
	call("raw-icmp6", SYS_socket, AF_INET6, SOCK_RAW, 58, 0);
	int pair[2];
	call("socketpair-inet", SYS_socketpair, AF_INET, SOCK_STREAM, 0, (unsigned long)pair);
	call("socketpair-tipc", SYS_socketpair, 30, SOCK_STREAM, 0, (unsigned long)pair);
}

static void terminal_calls(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	unsigned long terminal = (unsigned long)fd;
	char byte = 'x';
	struct { unsigned short rows, columns, x, y; } size;
	printf("ptmx %d\n", fd < 0 ? errno : 0);
	call("TIOCSTI", SYS_ioctl, terminal, 0x5412, (unsigned long)&byte, 0);
	call("TIOCLINUX", SYS_ioctl, terminal, 0x541c, (unsigned long)&byte, 0);
	call("TIOCSTI-upper-bits", SYS_ioctl, terminal, UPPER | 0x5412, (unsigned long)&byte, 0);
	call("TIOCLINUX-upper-bits", SYS_ioctl, terminal, UPPER | 0x541c, (unsigned long)&byte, 0);
	call("TIOCSTI-sign-extended", SYS_ioctl, terminal, 0xffffffff00005412UL, (unsigned long)&byte, 0);
	call("TIOCGWINSZ", SYS_ioctl, terminal, 0x5413, (unsigned long)&size, 0);
	call("TIOCGWINSZ-upper-bits", SYS_ioctl, terminal, UPPER | 0x5413, (unsigned long)&size, 0);
	call("TIOCGPTN", SYS_ioctl, terminal, 0x80045430, (unsigned long)&size, 0);
	call("TIOCGPTN-sign-extended", SYS_ioctl, terminal, 0xffffffff80045430UL, (unsigned long)&size, 0);
	if (fd >= 0)
		close(fd);
}

static void greed_calls(void)
{
	struct { int priority; } realtime = {1}, fair = {0};
	static const struct {
		const char *name;
		unsigned long policy;
	} policies[] = {{"fifo", 1}, {"rr", 2}, {"deadline", 6}, {"fifo-reset", 0x40000001}, {"ext", 7}};
	char name[64];
	for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
		snprintf(name, sizeof name, "sched-%s", policies[i].name);
		call(name, SYS_sched_setscheduler, 0, policies[i].policy, (unsigned long)&realtime, 0);
	}
	call("sched-fifo-upper-bits", SYS_sched_setscheduler, 0, UPPER | 1, (unsigned long)&realtime, 0);
	call("sched-batch", SYS_sched_setscheduler, 0, 3, (unsigned long)&fair, 0);
	call("nice-minus-20", SYS_setpriority, 0, 0, (unsigned long)-20, 0);
	call("ioprio-realtime", SYS_ioprio_set, 1, 0, 1 << 13, 0);
	void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	call("mlock-one-mebibyte", SYS_mlock, (unsigned long)memory, 1 << 20, 0, 0);
	call("mlock-one-page", SYS_mlock, (unsigned long)memory, 4096, 0, 0);
}

#ifdef __x86_64__
/* 20 is getpid for i386; 39 with bit 30 is getpid for x32. Neither is this program's architecture. */
static void foreign_calls(void)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		long result = 20;
		__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
		_exit(result < 0 ? 1 : 0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	printf("call i386-getpid %s\n", WIFSIGNALED(status) ? "killed" : WEXITSTATUS(status) == 0 ? "answered" : "failed");
	call("x32-getpid", 0x40000000 + 39, 0, 0, 0, 0);
}
#else
static void foreign_calls(void) {}
#endif

static void *thread_body(void *unused)
{
	return unused;
}

static int twin_thread(void)
{
	pthread_t thread;
	return pthread_create(&thread, NULL, thread_body, NULL) == 0 && pthread_join(thread, NULL) == 0 ? 0 : -1;
}

static int twin_exec(void)
{
	int status = 0;
	pid_t child = fork();
	if (child == 0) {
		execl("/.sallyport/init", "init", "twin", (char *)NULL);
		_exit(1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42 ? 0 : -1;
}

static int twin_unix(void)
{
	int pair[2];
	char byte = 'x';
	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && write(pair[0], &byte, 1) == 1 && read(pair[1], &byte, 1) == 1 ? 0
														    : -1;
}

static int twin_loopback(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
	if (bind(server, (struct sockaddr *)&address, length) < 0 || listen(server, 1) < 0)
		return -1;
	if (getsockname(server, (struct sockaddr *)&address, &length) < 0)
		return -1;
	return connect(client, (struct sockaddr *)&address, length);
}

static int twin_routes(void)
{
	struct {
		struct nlmsghdr header;
		struct rtgenmsg body;
	} request = {{sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
	char answer[8192];
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (send(fd, &request, sizeof request, 0) < 0 || recv(fd, answer, sizeof answer, 0) <= 0)
		return -1;
	return ((struct nlmsghdr *)answer)->nlmsg_type == RTM_NEWLINK ? 0 : -1;
}

static void twins(void)
{
	say("twin-thread", twin_thread());
	say("twin-exec", twin_exec());
	say("twin-unix", twin_unix());
	say("twin-loopback", twin_loopback());
	say("twin-routes", twin_routes());
	say("twin-udp", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	say("twin-udp-named", socket(AF_INET6, SOCK_DGRAM, IPPROTO_UDP));
	say("twin-tcp6", socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP));
	say("twin-unshare-files", syscall(SYS_unshare, 0x00000400));
	say("twin-personality-query", syscall(SYS_personality, 0xffffffff));
	say("twin-fifo", mkfifo("/fifo", 0600));
	say("twin-shared-memory", open("/dev/shm/x", O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	say("twin-identity", setgid(1000) < 0 ? -1 : setuid(1000));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "twin") == 0)
		return 42;
	static const char *const wanted[] = {
		"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/vmstat",
		"/proc/filesystems", "/proc/sys/kernel/ostype", "/sys/devices/system/cpu/online",
		"/sys/devices/system/node/online", "/proc/net/dev",
	};
	show("status", "/proc/self/status");
	show("limit", "/proc/self/limits");
	show("uid_map", "/proc/self/uid_map");
	show("gid_map", "/proc/self/gid_map");
	show("mount", "/proc/self/mountinfo");
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
		show_readable(wanted[i]);
	/* what shall not be readable is asked by name, one a line */
	char path[256];
	FILE *hidden = fopen("/hidden", "re");
	while (hidden != NULL && fgets(path, sizeof path, hidden) != NULL) {
		path[strcspn(path, "\n")] = 0;
		show_readable(path);
	}
	if (hidden != NULL)
		fclose(hidden);
	nftw("/proc", show_writable, 32, FTW_PHYS | FTW_ACTIONRETVAL);
	nftw("/sys", show_writable, 32, FTW_PHYS | FTW_ACTIONRETVAL);
	terminal_calls();
	denied_calls();
	namespace_calls();
	socket_calls();
	greed_calls();
	foreign_calls();
	twins();
	puts("end ok");
	return 0;
}
