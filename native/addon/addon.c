/*
 * The calls that Node lacks, for src/linux only: pidfds, eventfds, readiness of an fd, sockets inside another network
 * namespace, the original destination of a redirected connection, socket pairs. Nothing here decides anything.
 */
#define _GNU_SOURCE
#define NAPI_VERSION 8
#include <node_api.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IP6T_ORIGINAL_DST = 80, BACKLOG = 511, EVENTS = 64 };

/* Throws as Node's own calls do: an Error with code and syscall. */
static napi_value fail(napi_env env, const char *call, int number)
{
	char message[160];
	const char *name = strerrorname_np(number);
	snprintf(message, sizeof message, "%s: %s, %s", name ? name : "EUNKNOWN", strerror(number), call);
	napi_value error, text, code, syscall_name;
	napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text);
	napi_create_string_utf8(env, name ? name : "EUNKNOWN", NAPI_AUTO_LENGTH, &code);
	napi_create_string_utf8(env, call, NAPI_AUTO_LENGTH, &syscall_name);
	napi_create_error(env, code, text, &error);
	napi_set_named_property(env, error, "syscall", syscall_name);
	napi_throw(env, error);
	return NULL;
}

/* Node-API's own conversion would cut 1.5 to 1 and 2^32 + 1 to 1: another process, another file. */
static bool int_argument(napi_env env, napi_value value, const char *name, int32_t least, int32_t most, int32_t *out)
{
	double number;
	if (napi_get_value_double(env, value, &number) == napi_ok && number >= least && number <= most) {
		*out = (int32_t)number;
		if ((double)*out == number)
			return true;
	}
	char message[80];
	snprintf(message, sizeof message, "%s must be an integer of %d to %d", name, least, most);
	napi_throw_type_error(env, NULL, message);
	return false;
}
static bool fd_argument(napi_env env, napi_value value, const char *name, int32_t *out)
{
	return int_argument(env, value, name, 0, INT32_MAX, out);
}
static bool arguments(napi_env env, napi_callback_info info, size_t wanted, napi_value *values)
{
	size_t count = wanted;
	if (napi_get_cb_info(env, info, &count, values, NULL, NULL) == napi_ok && count >= wanted)
		return true;
	napi_throw_type_error(env, NULL, "too few arguments");
	return false;
}
static napi_value integer(napi_env env, int32_t number)
{
	napi_value value;
	napi_create_int32(env, number, &value);
	return value;
}
static napi_value boolean(napi_env env, bool truth)
{
	napi_value value;
	napi_get_boolean(env, truth, &value);
	return value;
}

static napi_value pidfd_open_(napi_env env, napi_callback_info info)
{
	napi_value values[1];
	int32_t pid;
	if (!arguments(env, info, 1, values) || !int_argument(env, values[0], "pid", 1, INT32_MAX, &pid))
		return NULL;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? fail(env, "pidfd_open", errno) : integer(env, fd);
}

/* false: the process has ended */
static napi_value pidfd_send_signal_(napi_env env, napi_callback_info info)
{
	napi_value values[2];
	int32_t fd, number;
	if (!arguments(env, info, 2, values) || !fd_argument(env, values[0], "fd", &fd) ||
	    !int_argument(env, values[1], "signal", 0, 64, &number))
		return NULL;
	if (syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0)
		return boolean(env, true);
	return errno == ESRCH ? boolean(env, false) : fail(env, "pidfd_send_signal", errno);
}

static napi_value eventfd_(napi_env env, napi_callback_info info)
{
	(void)info;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fd < 0 ? fail(env, "eventfd", errno) : integer(env, fd);
}

static napi_value socket_pair(napi_env env, napi_callback_info info)
{
	(void)info;
	int fds[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return fail(env, "socketpair", errno);
	napi_value pair;
	napi_create_array_with_length(env, 2, &pair);
	napi_set_element(env, pair, 0, integer(env, fds[0]));
	napi_set_element(env, pair, 1, integer(env, fds[1]));
	return pair;
}

/*
 * Readiness: one thread waits for all watched fds and wakes the event loop. A watch is one-shot: it is armed once,
 * reports once, and is taken out by unwatch. The loop is not kept alive by it.
 */
static struct {
	bool runs;
	int epoll;
	int stop;
	pthread_t thread;
	napi_threadsafe_function wake;
} watcher;

static void on_ready(napi_env env, napi_value callback, void *context, void *data)
{
	(void)context;
	if (env == NULL)
		return;
	napi_value undefined, argument = integer(env, (int32_t)(intptr_t)data);
	napi_get_undefined(env, &undefined);
	napi_call_function(env, undefined, callback, 1, &argument, NULL);
}
/* Token 0 is the order to stop. */
static void *wait_for_events(void *unused)
{
	struct epoll_event events[EVENTS];
	(void)unused;
	for (;;) {
		int count = epoll_wait(watcher.epoll, events, EVENTS, -1);
		if (count < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < count; i++) {
			if (events[i].data.u32 == 0)
				return NULL;
			napi_call_threadsafe_function(watcher.wake, (void *)(intptr_t)events[i].data.u32, napi_tsfn_blocking);
		}
	}
}
/* Node frees `wake` when the environment ends, after this hook: the thread must not call it any more. */
static void stop_watching(void *unused)
{
	(void)unused;
	eventfd_write(watcher.stop, 1);
	pthread_join(watcher.thread, NULL);
	close(watcher.epoll);
	close(watcher.stop);
	watcher.runs = false;
}
/* @returns 0 or an errno. Signals are for Node's own threads. */
static int start_thread(pthread_t *thread, void *(*body)(void *), void *data)
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(thread, NULL, body, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
static int open_watcher(void)
{
	struct epoll_event stop = {.events = EPOLLIN, .data.u32 = 0};
	watcher.epoll = epoll_create1(EPOLL_CLOEXEC);
	watcher.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watcher.epoll >= 0 && watcher.stop >= 0 && epoll_ctl(watcher.epoll, EPOLL_CTL_ADD, watcher.stop, &stop) == 0) {
		int error = start_thread(&watcher.thread, wait_for_events, NULL);
		if (error == 0)
			return 0;
		errno = error;
	}
	int error = errno;
	if (watcher.epoll >= 0)
		close(watcher.epoll);
	if (watcher.stop >= 0)
		close(watcher.stop);
	return error;
}
/* startWatching(callback: (token) => void), once per process */
static napi_value start_watching(napi_env env, napi_callback_info info)
{
	napi_value values[1], name;
	napi_valuetype type;
	if (!arguments(env, info, 1, values))
		return NULL;
	if (watcher.runs || napi_typeof(env, values[0], &type) != napi_ok || type != napi_function) {
		napi_throw_type_error(env, NULL, "startWatching takes a function, and only once");
		return NULL;
	}
	napi_create_string_utf8(env, "sallyport-watch", NAPI_AUTO_LENGTH, &name);
	if (napi_create_threadsafe_function(env, values[0], NULL, name, 0, 1, NULL, NULL, NULL, on_ready, &watcher.wake) != napi_ok)
		return fail(env, "napi_create_threadsafe_function", ENOMEM);
	napi_unref_threadsafe_function(env, watcher.wake);
	int error = open_watcher();
	if (error != 0) {
		napi_release_threadsafe_function(watcher.wake, napi_tsfn_abort);
		return fail(env, "epoll", error);
	}
	watcher.runs = true;
	napi_add_env_cleanup_hook(env, stop_watching, NULL);
	return NULL;
}
/* watch(fd, token) */
static napi_value watch_(napi_env env, napi_callback_info info)
{
	napi_value values[2];
	int32_t fd, token;
	if (!arguments(env, info, 2, values) || !fd_argument(env, values[0], "fd", &fd) ||
	    !int_argument(env, values[1], "token", 1, INT32_MAX, &token))
		return NULL;
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = (uint32_t)token};
	if (epoll_ctl(watcher.runs ? watcher.epoll : -1, EPOLL_CTL_ADD, fd, &event) < 0)
		return fail(env, "epoll_ctl", errno);
	return NULL;
}
static napi_value unwatch(napi_env env, napi_callback_info info)
{
	napi_value values[1];
	int32_t fd;
	if (!arguments(env, info, 1, values) || !fd_argument(env, values[0], "fd", &fd))
		return NULL;
	epoll_ctl(watcher.runs ? watcher.epoll : -1, EPOLL_CTL_DEL, fd, NULL);
	return NULL;
}

/* unshare changes the calling thread only, as setns does: a thread of its own makes the namespace, and its fd keeps it. */
struct netns_request {
	int result, error;
};
static void *netns_thread(void *data)
{
	struct netns_request *request = data;
	request->result = unshare(CLONE_NEWNET) < 0 ? -1 : open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	request->error = errno;
	return NULL;
}
/* newNetns() -> fd of a network namespace in which nothing is up */
static napi_value new_netns(napi_env env, napi_callback_info info)
{
	(void)info;
	struct netns_request request = {.result = -1};
	pthread_t thread;
	int error = start_thread(&thread, netns_thread, &request);
	if (error != 0)
		return fail(env, "pthread_create", error);
	pthread_join(thread, NULL);
	return request.result < 0 ? fail(env, "unshare", request.error) : integer(env, request.result);
}

struct listen_request {
	int netns_fd;
	int type;
	struct sockaddr_storage address;
	socklen_t address_length;
	int result;
	int error;
	const char *call;
};
static int listen_step(struct listen_request *request)
{
	int one = 1, family = request->address.ss_family;
	request->call = "setns";
	if (setns(request->netns_fd, CLONE_NEWNET) < 0)
		return -1;
	request->call = "socket";
	int fd = socket(family, request->type | SOCK_CLOEXEC | SOCK_NONBLOCK, family == AF_NETLINK ? NETLINK_NETFILTER : 0);
	if (fd < 0 || family == AF_NETLINK)
		return fd;
	/*
	 * An IPv6 socket that took IPv4 too would keep the IPv4 one off its port. Not for datagrams: there a second socket with
	 * SO_REUSEADDR takes the port over, and whoever is in the namespace could.
	 */
	if ((request->type == SOCK_DGRAM || (request->call = "setsockopt", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) == 0) &&
	    (family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0) &&
	    (request->call = "bind", bind(fd, (struct sockaddr *)&request->address, request->address_length)) == 0 &&
	    (request->type == SOCK_DGRAM || (request->call = "listen", listen(fd, BACKLOG)) == 0))
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}
/* setns changes the calling thread only: a thread of its own enters the namespace and ends there. */
static void *listen_thread(void *data)
{
	struct listen_request *request = data;
	request->result = listen_step(request);
	request->error = errno;
	return NULL;
}
static napi_value socket_in_netns(napi_env env, struct listen_request *request)
{
	pthread_t thread;
	int error = start_thread(&thread, listen_thread, request);
	if (error != 0)
		return fail(env, "pthread_create", error);
	pthread_join(thread, NULL);
	return request->result < 0 ? fail(env, request->call, request->error) : integer(env, request->result);
}
/* Longer than any address, so that a text that was cut cannot be one. @returns false after throwing */
static bool address_argument(napi_env env, napi_value value, uint16_t port, struct listen_request *request)
{
	char text[INET6_ADDRSTRLEN + 2] = "";
	struct sockaddr_in *v4 = (struct sockaddr_in *)&request->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&request->address;
	size_t length = 0;
	if (napi_get_value_string_utf8(env, value, text, sizeof text, &length) != napi_ok || strlen(text) != length)
		text[0] = '\0';
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		request->address_length = sizeof *v4;
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(port);
		request->address_length = sizeof *v6;
		return true;
	}
	napi_throw_type_error(env, NULL, "address must be an IPv4 or IPv6 address");
	return false;
}
/* "tcp" or "udp". @returns false after throwing */
static bool protocol_argument(napi_env env, napi_value value, int *type)
{
	char text[5] = "";
	if (napi_get_value_string_utf8(env, value, text, sizeof text, NULL) != napi_ok)
		text[0] = '\0';
	*type = strcmp(text, "udp") == 0 ? SOCK_DGRAM : SOCK_STREAM;
	if (*type == SOCK_DGRAM || strcmp(text, "tcp") == 0)
		return true;
	napi_throw_type_error(env, NULL, "protocol must be tcp or udp");
	return false;
}
/* listenInNetns(netnsFd, address, port, 'tcp' | 'udp') -> fd; the address says the family */
static napi_value listen_in_netns(napi_env env, napi_callback_info info)
{
	napi_value values[4];
	int32_t port;
	struct listen_request request = {.result = -1};
	if (!arguments(env, info, 4, values) || !fd_argument(env, values[0], "netnsFd", &request.netns_fd) ||
	    !int_argument(env, values[2], "port", 0, 65535, &port) ||
	    !address_argument(env, values[1], (uint16_t)port, &request) || !protocol_argument(env, values[3], &request.type))
		return NULL;
	return socket_in_netns(env, &request);
}

/* netfilterInNetns(netnsFd) -> fd of a netlink socket to the namespace's netfilter, to be read and written as a file */
static napi_value netfilter_in_netns(napi_env env, napi_callback_info info)
{
	napi_value values[1];
	struct listen_request request = {.result = -1, .type = SOCK_RAW, .address.ss_family = AF_NETLINK};
	if (!arguments(env, info, 1, values) || !fd_argument(env, values[0], "netnsFd", &request.netns_fd))
		return NULL;
	return socket_in_netns(env, &request);
}

/* originalDestination(fd) -> { address, port }: where a redirected connection wanted to go */
static napi_value original_destination(napi_env env, napi_callback_info info)
{
	napi_value values[1], result, address;
	int32_t fd;
	int family;
	if (!arguments(env, info, 1, values) || !fd_argument(env, values[0], "fd", &fd))
		return NULL;
	struct sockaddr_storage original;
	socklen_t length = sizeof family;
	char text[INET6_ADDRSTRLEN];
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) < 0)
		return fail(env, "getsockopt", errno);
	bool is_v6 = family == AF_INET6;
	length = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	if (getsockopt(fd, is_v6 ? SOL_IPV6 : SOL_IP, is_v6 ? IP6T_ORIGINAL_DST : SO_ORIGINAL_DST, &original, &length) < 0)
		return fail(env, "getsockopt", errno);
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&original;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&original;
	if (inet_ntop(family, is_v6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr, text, sizeof text) == NULL)
		return fail(env, "inet_ntop", errno);
	napi_create_object(env, &result);
	napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &address);
	napi_set_named_property(env, result, "address", address);
	napi_set_named_property(env, result, "port", integer(env, ntohs(is_v6 ? v6->sin6_port : v4->sin_port)));
	return result;
}

NAPI_MODULE_INIT()
{
	static const struct {
		const char *name;
		napi_callback call;
	} calls[] = {
		{"pidfdOpen", pidfd_open_},
		{"pidfdSendSignal", pidfd_send_signal_},
		{"eventfd", eventfd_},
		{"socketPair", socket_pair},
		{"startWatching", start_watching},
		{"watch", watch_},
		{"unwatch", unwatch},
		{"newNetns", new_netns},
		{"listenInNetns", listen_in_netns},
		{"netfilterInNetns", netfilter_in_netns},
		{"originalDestination", original_destination},
	};
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		napi_value function;
		if (napi_create_function(env, calls[i].name, NAPI_AUTO_LENGTH, calls[i].call, NULL, &function) != napi_ok)
			return NULL;
		napi_set_named_property(env, exports, calls[i].name, function);
	}
	return exports;
}
