/* tree: see tree.h. */
#define _GNU_SOURCE
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Well above any pids limit; past it the scan fails and the sandbox is given up rather than half searched. */
enum { PROCESSES_MAX = 32768, STAT_BYTES = 512 };

struct process {
	pid_t pid, parent;
	bool ours;
};

static struct process table[PROCESSES_MAX];
static int table_size;

static pid_t parse_number(const char *text)
{
	pid_t number = 0;
	for (; *text >= '0' && *text <= '9'; text++) number = number * 10 + (*text - '0');
	return number;
}

/* `pid (comm) state ppid …`, where comm is what the process likes, with `)` and blanks: so from the last `)` on. */
static pid_t parse_parent(const char *stat)
{
	const char *after = strrchr(stat, ')');
	return after != NULL && strlen(after) > 4 ? parse_number(after + 4) : 0;
}

/* @return false only when /proc itself fails; a process that has gone meanwhile is none */
static bool add_process(int proc, const char *name)
{
	char path[32] = {0}, stat[STAT_BYTES + 1];
	if (strlen(name) > 16) return true;
	strcat(strcpy(path, name), "/stat");
	const int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return errno == ENOENT || errno == ESRCH;
	const ssize_t size = read(fd, stat, STAT_BYTES);
	close(fd);
	if (size <= 0) return true;
	stat[size] = 0;
	if (table_size == PROCESSES_MAX) return false;
	table[table_size++] = (struct process){.pid = parse_number(name), .parent = parse_parent(stat)};
	return true;
}

static bool read_table(int proc)
{
	static _Alignas(8) char entries[16384];
	table_size = 0;
	if (lseek(proc, 0, SEEK_SET) != 0) return false;
	for (;;) {
		const ssize_t size = getdents64(proc, entries, sizeof entries);
		if (size <= 0) return size == 0;
		for (ssize_t at = 0; at < size;) {
			const struct dirent64 *entry = (const void *)(entries + at);
			at += entry->d_reclen;
			if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
			if (!add_process(proc, entry->d_name)) return false;
		}
	}
}

/* The kernel lists processes by ascending pid. */
static bool is_ours(pid_t pid)
{
	int low = 0, high = table_size;
	while (low < high) {
		const int middle = low + (high - low) / 2;
		if (table[middle].pid < pid) low = middle + 1;
		else high = middle;
	}
	return low < table_size && table[low].pid == pid && table[low].ours;
}

/* Marks until a pass finds nothing new: one pass unless pids have wrapped around. */
static int mark_descendants(pid_t root)
{
	int found = 0;
	for (int before = -1; before != found;) {
		before = found;
		for (int i = 0; i < table_size; i++) {
			if (table[i].ours || (table[i].parent != root && !is_ours(table[i].parent))) continue;
			table[i].ours = true;
			found++;
		}
	}
	return found;
}

int tree_scan(int proc)
{
	return read_table(proc) ? mark_descendants(getpid()) : -1;
}

void tree_signal(int signal_number)
{
	for (int i = 0; i < table_size; i++)
		if (table[i].ours) kill(table[i].pid, signal_number);
}
