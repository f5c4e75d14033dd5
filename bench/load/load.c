/*
 * The client of `make bench`: HTTP/1.1 load from one thread and one epoll, in
 * clear or over TLS.
 *
 * Without -r it is closed: every connection sends its next request when the
 * last answer is whole, which saturates what it talks to. With -r it is open:
 * requests are due at times drawn beforehand (exponential gaps, a fixed seed),
 * whatever the answers do, and latency counts from the time a request was due,
 * not from when a connection was free to send it. A stall thus costs every
 * request that was due in it (no coordinated omission).
 *
 * It reads the processor time of the processes given with -p at the ends of
 * the very window whose requests it counts. It prints one line of JSON, keeps
 * its connections until its standard input ends, so that the proxy's memory
 * can be read meanwhile, and exits 1 if any answer was wrong.
 *
 * TLS (-t) is OpenSSL's, 1.3 with one suite, so that every proxy does the same
 * work. With -n each request brings a full handshake; with -s a connection
 * shows the session of the one before it, and one that is not resumed is an
 * error. Whose certificate it gets the client does not ask: the look before the
 * load has done so.
 *
 * It is no general client: it wants Content-Length in every answer, and drops
 * bodies (in clear: in the kernel) without looking at them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef long long i64;

enum { HEAD_MAX = 8192, PIDS_MAX = 64, CONNECTING_MAX = 128, SOURCES = 64 };
enum state { CLOSED, IDLE, CONNECTING, HANDSHAKE, SENDING, HEAD, BODY };

struct conn {
	int fd, number;
	int ended; /* the other side sends nothing more */
	enum state state;
	i64 due;       /* when the request under way was due, ns */
	size_t sent;
	size_t have;   /* bytes in in[] */
	i64 left;      /* of the answer's body */
	SSL *tls;      /* NULL: in clear */
	SSL_SESSION *session; /* of the last connection here, to be resumed */
	char in[HEAD_MAX];
};

/* What was asked for. */
static struct sockaddr_in target;
static const char *path = "/", *field = "";
static int connections = 1, fresh, idle_only, resume;
static SSL_CTX *tls; /* NULL: in clear */
static size_t upload;
static i64 expected = -1, warm = 300000000, duration = 1000000000;
static double rate;
static int pids[PIDS_MAX], pid_count;

static char *request;
static size_t request_length;

static int epoll;
static struct conn *conns;
static char scratch[1 << 16];

/* Connections free to send, and requests due that found none, both in order. */
static struct conn **free_ring;
static size_t free_head, free_tail, free_mask;
static i64 *due_ring;
static size_t due_head, due_tail, due_mask;

/* The window. Latencies fall in buckets less than 1% wide. */
enum { SUB = 128, BUCKETS = 64 * SUB };
static int measuring, draining;
static i64 window_start, window_end, completed, scheduled, unfinished, longest;
static i64 wrong_status, wrong_length, broken, forgotten, resumed;
static char first_error[256];
static unsigned histogram[BUCKETS];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static i64 now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fault(i64 *count, const char *what, int error)
{
	const char *why = error == EPROTO ? ERR_reason_error_string(ERR_peek_error()) : NULL;
	if (!why)
		why = error ? strerror(error) : "";
	++*count;
	if (!first_error[0])
		snprintf(first_error, sizeof first_error, "%.128s%s%.100s", what, *why ? ": " : "", why);
}

static int bucket(i64 ns)
{
	if (ns < SUB)
		return ns < 0 ? 0 : ns;
	int shift = 63 - __builtin_clzll(ns) - 7;
	return (shift + 1) * SUB + (int)((ns >> shift) - SUB);
}

static i64 bucket_value(int b)
{
	if (b < SUB)
		return b;
	int shift = b / SUB - 1;
	return ((i64)(b % SUB + SUB) << shift) + (1LL << shift) / 2;
}

static void record(i64 ns)
{
	histogram[bucket(ns)]++;
	if (ns > longest)
		longest = ns;
}

static i64 quantile(double q)
{
	i64 total = 0, seen = 0;
	for (int i = 0; i < BUCKETS; i++)
		total += histogram[i];
	for (int i = 0; i < BUCKETS; i++) {
		seen += histogram[i];
		if (seen && seen >= ceil(q * total))
			return bucket_value(i);
	}
	return 0;
}

/* The processor time of the processes: exact in sum; the parts in clock ticks. */
struct usage {
	i64 total;
	long user, system;
};

static struct usage usage(void)
{
	struct usage sum = {0};
	for (int i = 0; i < pid_count; i++) {
		clockid_t clock;
		struct timespec t;
		char name[64], line[1024];
		if (clock_getcpuclockid(pids[i], &clock) || clock_gettime(clock, &t))
			die("processor time of a process");
		sum.total += t.tv_sec * 1000000000LL + t.tv_nsec;
		snprintf(name, sizeof name, "/proc/%d/stat", pids[i]);
		FILE *f = fopen(name, "r");
		long user = 0, system = 0;
		char *after;
		if (!f || !fgets(line, sizeof line, f) || !(after = strrchr(line, ')')) ||
		    sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
			die(name);
		fclose(f);
		sum.user += user;
		sum.system += system;
	}
	return sum;
}

static double uniform(void)
{
	static unsigned long long x = 0x9E3779B97F4A7C15ULL; /* fixed: every proxy gets the same times */
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return ((x >> 11) + 1) / 9007199254740993.0;
}

static void watch(struct conn *c)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &e))
		die("epoll_ctl");
}

static void open_conn(struct conn *c)
{
	int one = 1;
	/* Several addresses to come from: else the ports run out in TIME_WAIT. */
	struct sockaddr_in from = {.sin_family = AF_INET};
	from.sin_addr.s_addr = htonl((127 << 24) | (1 << 8) | (1 + c->number % SOURCES));
	if ((c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) < 0)
		die("socket");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
	if (bind(c->fd, (struct sockaddr *)&from, sizeof from))
		die("bind");
	c->state = CONNECTING;
	c->have = c->sent = 0;
	c->ended = 0;
	if (connect(c->fd, (struct sockaddr *)&target, sizeof target) && errno != EINPROGRESS)
		die("connect");
	watch(c);
	if (!tls)
		return;
	if (!(c->tls = SSL_new(tls)) || !SSL_set_fd(c->tls, c->fd) || !SSL_set_app_data(c->tls, c) ||
	    !SSL_set_tlsext_host_name(c->tls, "bench.example") || (resume && c->session && !SSL_set_session(c->tls, c->session)))
		die("TLS");
	SSL_set_connect_state(c->tls);
}

static void close_conn(struct conn *c)
{
	if (c->tls) {
		SSL_shutdown(c->tls); /* without a word, but else its session could not be resumed */
		SSL_free(c->tls);
		c->tls = NULL;
	}
	close(c->fd);
	c->state = CLOSED;
}

/* keep_session has what the next connection resumes: tickets come when they like. */
static int keep_session(SSL *s, SSL_SESSION *session)
{
	struct conn *c = SSL_get_app_data(s);
	SSL_SESSION_free(c->session);
	c->session = session;
	return 1;
}

/* forget_errors is for what comes before an operation whose result as_call reads. */
static void forget_errors(void)
{
	ERR_clear_error();
	errno = 0;
}

/* as_call makes the result of a TLS operation that of a system call. */
static ssize_t as_call(struct conn *c, int n)
{
	if (n > 0)
		return n;
	int error = errno;
	switch (SSL_get_error(c->tls, n)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
	case SSL_ERROR_ZERO_RETURN: return 0;
	case SSL_ERROR_SYSCALL: errno = error ? error : EPIPE; return -1;
	}
	if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return 0;
	errno = EPROTO;
	return -1;
}

static ssize_t put(struct conn *c, const char *from, size_t size)
{
	if (!c->tls)
		return send(c->fd, from, size, MSG_NOSIGNAL);
	forget_errors();
	return as_call(c, SSL_write(c->tls, from, size));
}

static ssize_t get(struct conn *c, char *into, size_t size)
{
	if (!c->tls)
		return recv(c->fd, into, size, 0);
	forget_errors();
	return as_call(c, SSL_read(c->tls, into, size));
}

/* drop is get for bytes that nobody wants; at most a mebibyte. */
static ssize_t drop(struct conn *c, size_t size)
{
	if (!c->tls)
		return recv(c->fd, scratch, size, MSG_TRUNC);
	return get(c, scratch, size < sizeof scratch ? size : sizeof scratch);
}

/* drained tells whether a read of n bytes, where there was room for more, has
 * taken all that is there; what comes then brings an event of its own. OpenSSL
 * gives a record at a time and leaves it open. */
static int drained(struct conn *c, ssize_t n, size_t room)
{
	return !c->tls && (size_t)n < room && !c->ended;
}

static void advance(struct conn *c);

static void start(struct conn *c, i64 due)
{
	c->due = due;
	if (fresh) {
		open_conn(c);
		return;
	}
	c->sent = c->have = 0;
	c->state = SENDING;
	advance(c);
}

/* finish counts an answer that is whole and finds the connection its next request. */
static void finish(struct conn *c)
{
	i64 t = now();
	if (measuring && (rate == 0 || c->due >= window_start)) {
		completed++;
		record(t - c->due);
	}
	if (fresh)
		close_conn(c);
	else
		c->state = IDLE;
	if (idle_only || draining)
		return;
	if (rate == 0)
		start(c, t);
	else if (due_head != due_tail)
		start(c, due_ring[due_head++ & due_mask]);
	else
		free_ring[free_tail++ & free_mask] = c;
}

/* begin_body reads the head of an answer; false where it is wrong. */
static int begin_body(struct conn *c, char *end)
{
	i64 length = -1;
	size_t head = end - c->in;
	if (memcmp(c->in, "HTTP/1.1 2", 10)) {
		c->in[head < 60 ? head : 60] = 0;
		fault(&wrong_status, c->in, 0);
		return 0;
	}
	for (char *line = c->in; (line = memchr(line, '\n', end - line)) && line + 16 < end;) {
		line++;
		if ((*line | 32) == 'c' && !strncasecmp(line, "content-length:", 15))
			length = atoll(line + 15);
	}
	c->left = length - (i64)(c->have - head);
	if (length < 0 || (expected >= 0 && length != expected) || c->left < 0) {
		fault(&wrong_length, "an answer of another length", 0);
		return 0;
	}
	c->state = BODY;
	return 1;
}

static void fail(struct conn *c, const char *what, int error)
{
	fault(&broken, what, error);
	close_conn(c);
}

/* shake_hands tells whether there is a request to send now. */
static int shake_hands(struct conn *c)
{
	forget_errors();
	ssize_t n = as_call(c, SSL_do_handshake(c->tls));
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			fail(c, n ? "handshake" : "closed within the handshake", n ? errno : 0);
		return 0;
	}
	if (c->session && resume && !SSL_session_reused(c->tls)) {
		fail(c, "a session was not resumed", 0);
		return 0;
	}
	resumed += measuring && SSL_session_reused(c->tls);
	c->state = fresh || c->due ? SENDING : IDLE;
	return c->state == SENDING;
}

static void advance(struct conn *c)
{
	if (c->state == CONNECTING) {
		int error = 0;
		socklen_t size = sizeof error;
		struct sockaddr_in peer;
		socklen_t peer_size = sizeof peer;
		getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error) {
			fail(c, "connect", error);
			return;
		}
		if (getpeername(c->fd, (struct sockaddr *)&peer, &peer_size))
			return; /* not yet */
		c->state = c->tls ? HANDSHAKE : SENDING;
		if (!c->tls && !fresh && !c->due) {
			c->state = IDLE;
			return;
		}
	}
	if (c->state == HANDSHAKE && !shake_hands(c))
		return;
	while (c->state == SENDING) {
		ssize_t n = put(c, request + c->sent, request_length - c->sent);
		if (n < 0) {
			if (errno != EAGAIN && errno != EINTR)
				fail(c, "send", errno);
			return;
		}
		c->sent += n;
		if (c->sent == request_length) {
			c->state = HEAD;
			return; /* the answer cannot be there yet: its bytes bring an event */
		}
	}
}

static void receive(struct conn *c)
{
	while (c->state == HEAD) {
		size_t room = sizeof c->in - c->have;
		ssize_t n = get(c, c->in + c->have, room);
		if (n <= 0) {
			if (n == 0 || (errno != EAGAIN && errno != EINTR))
				fail(c, n ? "receive" : "closed before the answer", n ? errno : 0);
			return;
		}
		c->have += n;
		char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
		if (end && !begin_body(c, end + 4)) {
			close_conn(c);
			return;
		}
		if (!end && c->have == sizeof c->in) {
			fail(c, "a head without end", 0);
			return;
		}
		if (end && c->left == 0) {
			finish(c);
			return;
		}
		if (drained(c, n, room))
			return;
	}
	while (c->state == BODY) {
		size_t want = c->left < 1 << 20 ? c->left : 1 << 20;
		ssize_t n = drop(c, want);
		if (n <= 0) {
			if (n == 0 || (errno != EAGAIN && errno != EINTR))
				fail(c, n ? "receive" : "closed within the answer", n ? errno : 0);
			return;
		}
		c->left -= n;
		if (c->left == 0)
			finish(c);
		else if (drained(c, n, want))
			return;
	}
}

static void on_event(struct conn *c, unsigned events)
{
	if (c->state == CONNECTING || c->state == HANDSHAKE || c->state == SENDING)
		advance(c);
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		c->ended |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
		if (c->state == SENDING && !c->tls)
			c->state = HEAD; /* an answer before the whole request is read too */
		if (c->state == HEAD || c->state == BODY)
			receive(c);
		if (c->state == IDLE && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
			fail(c, "closed while idle", 0);
	}
}

static void turn(i64 until)
{
	struct epoll_event events[64];
	i64 wait = until - now();
	if (wait < 0)
		wait = 0;
	struct timespec t = {wait / 1000000000, wait % 1000000000};
	int n = syscall(SYS_epoll_pwait2, epoll, events, 64, &t, NULL, 0);
	if (n < 0 && errno != EINTR)
		die("epoll_pwait2");
	for (int i = 0; i < n; i++)
		if (((struct conn *)events[i].data.ptr)->state != CLOSED)
			on_event(events[i].data.ptr, events[i].events);
}

static i64 faults(void)
{
	return wrong_status + wrong_length + broken + forgotten;
}

/* connect_all opens the connections, few at once: no queue of a listener overflows. */
static void connect_all(int send_one)
{
	i64 deadline = now() + 30000000000LL;
	int opened = 0, done;
	do {
		int pending = 0;
		done = 0;
		for (int i = 0; i < opened; i++) {
			pending += conns[i].state != IDLE;
			done += conns[i].state == IDLE;
		}
		for (; opened < connections && pending < CONNECTING_MAX; opened++, pending++) {
			conns[opened].due = send_one;
			open_conn(&conns[opened]);
		}
		if (done < connections)
			turn(now() + 100000000);
		if (faults() || now() > deadline) {
			fprintf(stderr, "load: %d of %d connections: %s\n", done, connections, first_error);
			exit(1);
		}
	} while (done < connections);
}

static void push_due(i64 due)
{
	if (due_tail - due_head > due_mask) {
		fprintf(stderr, "load: more requests due than can be remembered\n");
		exit(1);
	}
	due_ring[due_tail++ & due_mask] = due;
}

static void start_free(i64 t)
{
	while (free_head != free_tail && (rate == 0 || due_head != due_tail))
		start(free_ring[free_head++ & free_mask], rate == 0 ? t : due_ring[due_head++ & due_mask]);
}

static void give_up(i64 latency)
{
	unfinished++;
	record(latency);
}

/* drain waits for the answers under way. A request without one was forgotten. */
static void drain(void)
{
	int waiting = 1;
	measuring = 0;
	draining = 1;
	for (i64 limit = now() + 5000000000LL; waiting && !faults() && now() < limit;) {
		turn(now() + 10000000);
		waiting = 0;
		for (int i = 0; i < connections; i++)
			waiting += conns[i].state > IDLE;
	}
	if (waiting && !faults()) {
		forgotten = waiting;
		snprintf(first_error, sizeof first_error, "%d requests without an answer after 5 s", waiting);
	}
}

/* run makes the load and measures from the end of the warm-up. */
static void run(struct usage *before, struct usage *after)
{
	i64 begin = now(), next = begin, warm_end = begin + warm, end = warm_end + duration;
	double gap = rate ? 1e9 / rate : 0;
	for (;;) {
		i64 t = now();
		if (!measuring && t >= warm_end) {
			measuring = 1;
			*before = usage();
			window_start = now();
			end = window_start + duration;
		}
		int over = measuring && t >= end;
		for (; rate && next <= t && !(over && next >= end); next += (i64)(-log(uniform()) * gap)) {
			push_due(next);
			scheduled += measuring && next >= window_start;
		}
		if (over)
			break;
		start_free(t);
		i64 until = measuring ? end : warm_end;
		if (rate && next < until)
			until = next;
		turn(until);
		if (faults())
			break;
	}
	if (!measuring) /* an error ended the warm-up */
		return;
	*after = usage();
	window_end = now();
	measuring = rate != 0;
	/* What was due in the window is waited for, for a while: its latency counts. */
	for (i64 limit = now() + 500000000; rate && !faults() && completed < scheduled && now() < limit;) {
		start_free(now());
		turn(now() + 10000000);
	}
	i64 t = now();
	for (; rate && due_head != due_tail; due_head++)
		if (due_ring[due_head & due_mask] >= window_start)
			give_up(t - due_ring[due_head & due_mask]);
	for (int i = 0; rate && i < connections; i++)
		if (conns[i].state > IDLE && conns[i].due >= window_start)
			give_up(t - conns[i].due);
	drain();
}

/* secure has every connection speak TLS. */
static void secure(void)
{
	if (!(tls = SSL_CTX_new(TLS_client_method())) || !SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256") || !SSL_CTX_set1_groups_list(tls, "X25519"))
		die("TLS");
	SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_read_ahead(tls, 1);
	SSL_CTX_set_quiet_shutdown(tls, 1);
	SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(tls, keep_session);
}

static void options(int argc, char **argv)
{
	int o;
	char *colon, *pid;
	target.sin_family = AF_INET;
	while ((o = getopt(argc, argv, "a:c:u:b:l:w:d:r:p:h:nits")) > 0) {
		switch (o) {
		case 'a':
			if (!(colon = strchr(optarg, ':')))
				die("-a ADDRESS:PORT");
			*colon = 0;
			target.sin_addr.s_addr = inet_addr(optarg);
			target.sin_port = htons(atoi(colon + 1));
			break;
		case 'c': connections = atoi(optarg); break;
		case 'u': path = optarg; break;
		case 'b': upload = atol(optarg); break;
		case 'l': expected = atoll(optarg); break;
		case 'w': warm = atof(optarg) * 1e9; break;
		case 'd': duration = atof(optarg) * 1e9; break;
		case 'r': rate = atof(optarg); break;
		case 'h': field = optarg; break;
		case 'n': fresh = 1; break;
		case 'i': idle_only = 1; break;
		case 't': secure(); break;
		case 's': resume = 1; break;
		case 'p':
			for (pid = strtok(optarg, ","); pid && pid_count < PIDS_MAX; pid = strtok(NULL, ","))
				pids[pid_count++] = atoi(pid);
			break;
		default: exit(2);
		}
	}
	if (!target.sin_port || connections < 1) {
		fprintf(stderr, "usage: load -a ADDRESS:PORT [-c CONNECTIONS] [-u PATH] [-b UPLOAD] [-l LENGTH] "
			"[-w WARM] [-d SECONDS] [-r RATE] [-p PID,...] [-h FIELD] [-n] [-i] [-t [-s]]\n");
		exit(2);
	}
}

static void prepare(void)
{
	char head[HEAD_MAX];
	char length[128] = "";
	if (upload)
		snprintf(length, sizeof length, "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n", upload);
	int n = snprintf(head, sizeof head,
			 "%s %s HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: sluice-bench\r\nAccept: */*\r\n%s%s%s%s\r\n",
			 upload ? "POST" : "GET", path, length, fresh ? "Connection: close\r\n" : "", field, *field ? "\r\n" : "");
	if (n >= (int)sizeof head) {
		fprintf(stderr, "-h is too long\n");
		exit(2);
	}
	request_length = n + upload;
	if (!(request = malloc(request_length)))
		die("malloc");
	memcpy(request, head, n);
	for (size_t i = 0; i < upload; i++)
		request[n + i] = i * 31 >> 3;

	for (free_mask = 1; free_mask < (size_t)connections; free_mask *= 2)
		;
	due_mask = (1 << 22) - 1;
	free_ring = calloc(free_mask--, sizeof *free_ring);
	due_ring = malloc((due_mask + 1) * sizeof *due_ring);
	conns = calloc(connections, sizeof *conns);
	if (!free_ring || !due_ring || !conns)
		die("malloc");
	if ((epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
		die("epoll_create1");
	for (int i = 0; i < connections; i++)
		conns[i].number = i;
}

int main(int argc, char **argv)
{
	struct usage before = {0}, after = {0};
	options(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK, 1);
	prepare();
	if (!fresh)
		connect_all(idle_only);
	if (!idle_only) {
		for (int i = 0; i < connections; i++)
			free_ring[free_tail++ & free_mask] = &conns[i];
		run(&before, &after);
	}

	printf("{\"requests\":%lld,\"seconds\":%.9f,\"scheduled\":%lld,\"unfinished\":%lld,"
	       "\"wrong_status\":%lld,\"wrong_length\":%lld,\"broken\":%lld,\"forgotten\":%lld,"
	       "\"resumed\":%lld,\"p50_ns\":%lld,\"p99_ns\":%lld,\"p999_ns\":%lld,\"max_ns\":%lld,"
	       "\"cpu_ns\":%lld,\"user_ticks\":%ld,\"system_ticks\":%ld}\n",
	       completed, (window_end - window_start) / 1e9, scheduled, unfinished,
	       wrong_status, wrong_length, broken, forgotten, resumed,
	       quantile(.5), quantile(.99), quantile(.999), longest,
	       after.total - before.total, after.user - before.user, after.system - before.system);
	fflush(stdout);
	if (faults())
		fprintf(stderr, "load: %s\n", first_error);
	while (read(0, scratch, sizeof scratch) > 0)
		;
	return faults() ? 1 : 0;
}
