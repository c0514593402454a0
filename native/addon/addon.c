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
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
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

static napi_value fail(napi_env env, const char *call, int number)
{
	char message[160];
	snprintf(message, sizeof message, "%s: %s", call, strerror(number));
	napi_value error, text, code;
	napi_create_string_utf8(env, message, NAPI_AUTO_LENGTH, &text);
	const char *name = strerrorname_np(number);
	napi_create_string_utf8(env, name ? name : "EUNKNOWN", NAPI_AUTO_LENGTH, &code);
	napi_create_error(env, code, text, &error);
	napi_throw(env, error);
	return NULL;
}

static bool int_argument(napi_env env, napi_value value, const char *name, int32_t *out)
{
	if (napi_get_value_int32(env, value, out) == napi_ok)
		return true;
	char message[80];
	snprintf(message, sizeof message, "%s must be an integer", name);
	napi_throw_type_error(env, NULL, message);
	return false;
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
	if (!arguments(env, info, 1, values) || !int_argument(env, values[0], "pid", &pid))
		return NULL;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? fail(env, "pidfd_open", errno) : integer(env, fd);
}

/* false: the process has ended */
static napi_value pidfd_send_signal_(napi_env env, napi_callback_info info)
{
	napi_value values[2];
	int32_t fd, number;
	if (!arguments(env, info, 2, values) || !int_argument(env, values[0], "fd", &fd) || !int_argument(env, values[1], "signal", &number))
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
static int epoll_fd = -1;
static napi_threadsafe_function wake;

static void on_ready(napi_env env, napi_value callback, void *context, void *data)
{
	(void)context;
	if (env == NULL)
		return;
	napi_value undefined, argument = integer(env, (int32_t)(intptr_t)data);
	napi_get_undefined(env, &undefined);
	napi_call_function(env, undefined, callback, 1, &argument, NULL);
}
static void *wait_for_events(void *unused)
{
	(void)unused;
	struct epoll_event events[EVENTS];
	for (;;) {
		int count = epoll_wait(epoll_fd, events, EVENTS, -1);
		if (count < 0 && errno != EINTR)
			return NULL;
		for (int i = 0; i < count; i++)
			if (napi_call_threadsafe_function(wake, (void *)(intptr_t)events[i].data.u32, napi_tsfn_blocking) == napi_closing)
				return NULL;
	}
}
/* startWatching(callback: (token) => void), once per process */
static napi_value start_watching(napi_env env, napi_callback_info info)
{
	napi_value values[1], name;
	if (!arguments(env, info, 1, values))
		return NULL;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		return fail(env, "epoll_create1", errno);
	napi_create_string_utf8(env, "sallyport-watch", NAPI_AUTO_LENGTH, &name);
	if (napi_create_threadsafe_function(env, values[0], NULL, name, 0, 1, NULL, NULL, NULL, on_ready, &wake) != napi_ok)
		return NULL;
	napi_unref_threadsafe_function(env, wake);
	pthread_t thread;
	int error = pthread_create(&thread, NULL, wait_for_events, NULL);
	if (error != 0)
		return fail(env, "pthread_create", error);
	pthread_detach(thread);
	return NULL;
}
/* watch(fd, token) */
static napi_value watch_(napi_env env, napi_callback_info info)
{
	napi_value values[2];
	int32_t fd, token;
	if (!arguments(env, info, 2, values) || !int_argument(env, values[0], "fd", &fd) || !int_argument(env, values[1], "token", &token))
		return NULL;
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = (uint32_t)token};
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return fail(env, "epoll_ctl", errno);
	return NULL;
}
static napi_value unwatch(napi_env env, napi_callback_info info)
{
	napi_value values[1];
	int32_t fd;
	if (!arguments(env, info, 1, values) || !int_argument(env, values[0], "fd", &fd))
		return NULL;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return NULL;
}

struct listen_request {
	int netns_fd;
	int family;
	int type;
	struct sockaddr_storage address;
	socklen_t address_length;
	int result;
	int error;
	const char *call;
};
static int listen_step(struct listen_request *request)
{
	int one = 1;
	if (request->call = "setns", setns(request->netns_fd, CLONE_NEWNET) < 0)
		return -1;
	int fd = (request->call = "socket", socket(request->family, request->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0)
		return -1;
	if ((request->call = "setsockopt", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)) == 0 &&
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
/* listenInNetns(netnsFd, address, port, isUdp) -> fd */
static napi_value listen_in_netns(napi_env env, napi_callback_info info)
{
	napi_value values[4];
	int32_t netns, port, udp;
	char text[INET6_ADDRSTRLEN];
	if (!arguments(env, info, 4, values) || !int_argument(env, values[0], "netnsFd", &netns) || !int_argument(env, values[2], "port", &port) || !int_argument(env, values[3], "isUdp", &udp))
		return NULL;
	if (napi_get_value_string_utf8(env, values[1], text, sizeof text, NULL) != napi_ok || port < 0 || port > 65535) {
		napi_throw_type_error(env, NULL, "address and port are invalid");
		return NULL;
	}
	struct listen_request request = {.netns_fd = netns, .type = udp ? SOCK_DGRAM : SOCK_STREAM, .result = -1};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&request.address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&request.address;
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		request.address_length = sizeof *v4;
	} else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		request.address_length = sizeof *v6;
	} else {
		napi_throw_type_error(env, NULL, "address is neither IPv4 nor IPv6");
		return NULL;
	}
	request.family = request.address.ss_family;
	pthread_t thread;
	int error = pthread_create(&thread, NULL, listen_thread, &request);
	if (error != 0)
		return fail(env, "pthread_create", error);
	pthread_join(thread, NULL);
	return request.result < 0 ? fail(env, request.call, request.error) : integer(env, request.result);
}

/* originalDestination(fd) -> [address, port]: where a redirected connection wanted to go */
static napi_value original_destination(napi_env env, napi_callback_info info)
{
	napi_value values[1];
	int32_t fd;
	if (!arguments(env, info, 1, values) || !int_argument(env, values[0], "fd", &fd))
		return NULL;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	socklen_t length = sizeof v4;
	char text[INET6_ADDRSTRLEN];
	uint16_t port;
	if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &v4, &length) == 0) {
		inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
		port = ntohs(v4.sin_port);
	} else {
		length = sizeof v6;
		if (getsockopt(fd, SOL_IPV6, IP6T_ORIGINAL_DST, &v6, &length) < 0)
			return fail(env, "getsockopt", errno);
		inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
		port = ntohs(v6.sin6_port);
	}
	napi_value pair, address;
	napi_create_array_with_length(env, 2, &pair);
	napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &address);
	napi_set_element(env, pair, 0, address);
	napi_set_element(env, pair, 1, integer(env, port));
	return pair;
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
		{"listenInNetns", listen_in_netns},
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
