/*
 * PX-25: tries every system call number with null arguments, each in a child of its own, and prints the numbers whose
 * answer is not the filter's ENOSYS. Numbers that would end or stop the child are named, not run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAST = 470, NOT_RUN_COUNT = 11 };

/* exit, pause, exit_group, rt_sigreturn, fork, vfork, clone, rt_sigsuspend, vhangup, restart_syscall, kill(0, 0) */
static const int not_run[NOT_RUN_COUNT] = {60, 34, 231, 15, 57, 58, 56, 130, 153, 219, 62};

static int is_not_run(int number)
{
	for (int i = 0; i < NOT_RUN_COUNT; i++)
		if (not_run[i] == number)
			return 1;
	return 0;
}

/* 0 = answered, 1 = EPERM, 2 = ENOSYS, 3 = ended by a signal */
static int try(int number)
{
	pid_t child = fork();
	if (child < 0)
		return -1;
	if (child == 0) {
		alarm(1);
		errno = 0;
		long result = syscall(number, 0, 0, 0, 0, 0, 0);
		_exit(result == -1 && errno == ENOSYS ? 2 : result == -1 && errno == EPERM ? 1 : 0);
	}
	int status;
	if (waitpid(child, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

int main(void)
{
	for (int number = 0; number <= LAST; number++) {
		if (is_not_run(number)) {
			printf("%d not-run\n", number);
			continue;
		}
		int answer = try(number);
		if (answer < 0)
			return 1;
		if (answer != 2)
			printf("%d %s\n", number, answer == 1 ? "EPERM" : "allowed");
	}
	return 0;
}
