/*
 * The endpoint behind every proxy of `make bench`: one thread, one epoll, no
 * policy. It is as cheap as it can be, because it shares the processors with
 * what is measured, and it is no web server: it knows Content-Length only,
 * leaves it to the other side to close, and trusts what it reads.
 *
 *   GET /       256 bytes of JSON
 *   GET /100k   100 KiB
 *   GET /1m     1 MiB
 *   GET /head   the request's own head, to see what a proxy makes of it
 *   POST any    swallows the body and answers its length
 *
 * Usage: endpoint PORT (on 127.0.0.1)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_MAX = 8192, DESCRIPTORS = 65536 };

struct answer {
	char *bytes; /* head and body together: one write */
	size_t length;
};

struct conn {
	int fd;
	size_t have;       /* bytes in in[] */
	long long body;    /* what is left to swallow of a request's body */
	long long swallowed;
	const char *out;   /* what is left to write */
	size_t left;
	char own[HEAD_MAX + 256]; /* an answer made for this request alone */
	char in[HEAD_MAX];
};

static struct conn *conns[DESCRIPTORS];
static struct answer small, medium, large;
static char scratch[1 << 16];
static int epoll;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int head_of(char *to, size_t size, const char *type, size_t body)
{
	return snprintf(to, size,
			"HTTP/1.1 200 OK\r\nServer: endpoint\r\nContent-Type: %s\r\n"
			"Content-Length: %zu\r\n\r\n", type, body);
}

static struct answer make_answer(const char *type, size_t body)
{
	char head[256];
	int n = head_of(head, sizeof head, type, body);
	struct answer a = {malloc(n + body), n + body};
	if (!a.bytes)
		die("malloc");
	memcpy(a.bytes, head, n);
	for (size_t i = 0; i < body; i++)
		a.bytes[n + i] = 'a' + (i * 7 + i / 251) % 26; /* no block equals the next */
	if (body == 256) {
		memcpy(a.bytes + n, "{\"text\":\"", 9);
		memcpy(a.bytes + n + body - 2, "\"}", 2);
	}
	return a;
}

static void drop(struct conn *c)
{
	conns[c->fd] = NULL;
	close(c->fd);
	free(c);
}

/* flush writes what is left; false when the connection is gone. */
static int flush(struct conn *c)
{
	while (c->left) {
		ssize_t n = send(c->fd, c->out, c->left, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->out += n;
		c->left -= n;
	}
	return 1;
}

static int reply(struct conn *c, const char *bytes, size_t length)
{
	c->out = bytes;
	c->left = length;
	return flush(c);
}

static int reply_own(struct conn *c, const char *type, const char *body, size_t length)
{
	int n = head_of(c->own, sizeof c->own, type, length);
	memcpy(c->own + n, body, length);
	return reply(c, c->own, n + length);
}

static int reply_swallowed(struct conn *c)
{
	char body[64];
	int n = snprintf(body, sizeof body, "{\"swallowed\":%lld}", c->swallowed);
	c->swallowed = 0;
	return reply_own(c, "application/json", body, n);
}

static long long content_length(const char *head, const char *end)
{
	for (const char *line = head; (line = memchr(line, '\n', end - line)) && line + 16 < end;) {
		line++;
		if (!strncasecmp(line, "content-length:", 15))
			return atoll(line + 15);
	}
	return -1;
}

/* answer serves the first request of in[], whose head takes length bytes. */
static int answer(struct conn *c, size_t length)
{
	char *head = c->in;
	int ok;
	if (!memcmp(head, "GET / ", 6)) {
		ok = reply(c, small.bytes, small.length);
	} else if (!memcmp(head, "GET /100k ", 10)) {
		ok = reply(c, medium.bytes, medium.length);
	} else if (!memcmp(head, "GET /1m ", 8)) {
		ok = reply(c, large.bytes, large.length);
	} else if (!memcmp(head, "GET /head ", 10)) {
		ok = reply_own(c, "text/plain", head, length);
	} else if (!memcmp(head, "POST ", 5) && (c->body = content_length(head, head + length)) >= 0) {
		long long here = c->have - length;
		if (here > c->body)
			here = c->body;
		length += here;
		c->body -= here;
		c->swallowed = here;
		ok = c->body ? 1 : reply_swallowed(c);
	} else {
		static const char no[] = "HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n";
		ok = reply(c, no, sizeof no - 1);
	}
	c->have -= length;
	memmove(c->in, c->in + length, c->have);
	return ok;
}

/* serve does what it can until it would wait; false when the connection is over. */
static int serve(struct conn *c)
{
	if (!flush(c))
		return 0;
	while (!c->left) {
		ssize_t n;
		char *end;
		if (c->body) {
			/* MSG_TRUNC drops the bytes without copying them. */
			size_t want = c->body < 1 << 20 ? c->body : 1 << 20;
			n = recv(c->fd, scratch, want, MSG_TRUNC);
			if (n <= 0)
				return n < 0 && (errno == EAGAIN || errno == EINTR);
			c->swallowed += n;
			c->body -= n;
			if (c->body == 0 && !reply_swallowed(c))
				return 0;
			if (c->body && (size_t)n < want)
				return 1;
			continue;
		}
		if (c->have && (end = memmem(c->in, c->have, "\r\n\r\n", 4))) {
			if (!answer(c, end + 4 - c->in))
				return 0;
			continue;
		}
		if (c->have == sizeof c->in)
			return 0;
		size_t room = sizeof c->in - c->have;
		n = recv(c->fd, c->in + c->have, room, 0);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		c->have += n;
		if ((end = memmem(c->in, c->have, "\r\n\r\n", 4)) && !answer(c, end + 4 - c->in))
			return 0;
		if ((size_t)n < room && !c->have && !c->body)
			return 1; /* drained: the next bytes bring an event of their own */
	}
	return 1;
}

static void accept_all(int listener)
{
	for (;;) {
		int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if (fd >= DESCRIPTORS) {
			close(fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		struct conn *c = malloc(sizeof *c);
		if (!c)
			die("malloc");
		c->fd = fd;
		c->have = c->left = 0;
		c->body = c->swallowed = 0;
		conns[fd] = c;
		struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e))
			drop(c);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: endpoint PORT\n");
		return 2;
	}
	small = make_answer("application/json", 256);
	medium = make_answer("application/octet-stream", 100 << 10);
	large = make_answer("application/octet-stream", 1 << 20);
	signal(SIGPIPE, SIG_IGN);

	int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (struct sockaddr *)&address, sizeof address))
		die("bind");
	if (listen(listener, 4096))
		die("listen");
	if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("epoll");
	struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e))
		die("epoll_ctl");

	for (;;) {
		struct epoll_event events[256];
		int n = epoll_wait(epoll, events, 256, -1);
		for (int i = 0; i < n; i++) {
			if (events[i].data.fd == listener) {
				accept_all(listener);
				continue;
			}
			struct conn *c = conns[events[i].data.fd];
			if (c && (!serve(c) || events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
				drop(c);
		}
	}
}
