/* The main loop: the socket of the keeper on one side, the queue of libpmix's
 * callbacks on the other. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pmixd.h"

enum { KEEPER = 0, READ_SIZE = 64 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct event *first, **last = &first; /* under lock */
static int bell;

void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "pmixd: out of memory\n");
		_exit(3);
	}
	return p;
}

void event_post(struct event *e)
{
	const uint64_t one = 1;
	pthread_mutex_lock(&lock);
	*last = e;
	last = &e->next;
	pthread_mutex_unlock(&lock);
	if (write(bell, &one, sizeof one) < 0 && errno != EAGAIN)
		_exit(3);
}

/* flush writes what is queued until the socket is full, and answers for what
 * was written whole. It reports whether something is left. */
static int flush(void)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		struct event *e = first;
		pthread_mutex_unlock(&lock);
		if (!e)
			return 0;
		ssize_t n = write(KEEPER, e->data + e->sent, e->len - e->sent);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 1;
		if (n < 0)
			_exit(0); /* the keeper is gone */
		e->sent += n;
		if (e->sent < e->len)
			continue;
		pthread_mutex_lock(&lock);
		first = e->next;
		if (!first)
			last = &first;
		pthread_mutex_unlock(&lock);
		if (e->done)
			e->done(PMIX_SUCCESS, e->cookie);
		free(e->data);
		free(e);
	}
}

void failed(int why, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	struct event *e = event_new(OUT_FAILED);
	event_u32(e, why);
	event_text(e, text);
	event_post(e);
	fcntl(KEEPER, F_SETFL, 0); /* the last words may take their time */
	flush();
	_exit(1);
}

static void handle(const unsigned char *body, size_t len)
{
	struct reader r = {body + 1, body + len, 1};
	int ok = 0;
	switch (body[0]) {
	case IN_SETUP:
		ok = server_setup(&r);
		break;
	case IN_FENCE_DONE:
		ok = server_fence_done(&r);
		break;
	case IN_MODEX_ASK:
		ok = server_modex_ask(&r);
		break;
	case IN_MODEX_DONE:
		ok = server_modex_done(&r);
		break;
	case IN_DONE:
		ok = family_done(&r);
		break;
	case IN_SPAWNED:
		ok = family_spawned(&r);
		break;
	case IN_KNOW:
		ok = server_know(&r);
		break;
	case IN_QUIT:
		server_quit();
	}
	if (!ok)
		failed(FAILED_SETUP, "a frame of kind %d makes no sense", body[0]);
}

/* input is what came from the keeper and is no whole frame yet. */
static struct {
	unsigned char *data;
	size_t len, cap;
} input;

static void cut(void)
{
	size_t at = 0;
	while (input.len - at >= HEADER) {
		const unsigned char *p = input.data + at;
		struct reader r = {p, p + HEADER, 1};
		uint32_t n = read_u32(&r);
		if (n == 0 || n > FRAME_MAX)
			failed(FAILED_SETUP, "a frame of %u bytes", n);
		if (input.len - at - HEADER < n)
			break;
		handle(p + HEADER, n);
		at += HEADER + n;
	}
	memmove(input.data, input.data + at, input.len - at);
	input.len -= at;
}

static void hear(void)
{
	if (input.cap - input.len < READ_SIZE) {
		input.cap = 2 * input.cap + READ_SIZE;
		input.data = must(realloc(input.data, input.cap));
	}
	ssize_t n = read(KEEPER, input.data + input.len, input.cap - input.len);
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		_exit(0); /* the keeper is gone */
	if (n > 0) {
		input.len += n;
		cut();
	}
}

int main(int argc, char **argv)
{
	(void)argv;
	static const int deaf[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};
	if (argc > 1 || fcntl(KEEPER, F_SETFL, O_NONBLOCK) < 0) {
		fprintf(stderr, "pmixd is started by a keeper of filch, not by hand\n");
		return 2;
	}
	/* What ends the ranks must leave them their server until they are gone. */
	for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
		signal(deaf[i], SIG_IGN);
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (bell < 0)
		return 3;
	for (;;) {
		struct pollfd fds[2] = {{.fd = KEEPER, .events = POLLIN}, {.fd = bell, .events = POLLIN}};
		if (flush())
			fds[0].events |= POLLOUT;
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return 3;
		if (fds[1].revents) {
			uint64_t n;
			if (read(bell, &n, sizeof n) < 0 && errno != EAGAIN)
				return 3;
		}
		if (fds[0].revents & ~POLLOUT)
			hear();
	}
}
