//go:build linux

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// load is one kind of load.
type load struct {
	name        string
	title       string
	connections int
	path        string
	length      int // of the answer's body; of the request's where upload is set
	upload      bool
	fresh       bool   // a connection for each request
	idle        bool   // connections that do nothing after one request: memory
	tls         bool   // clients speak TLS 1.3
	resumed     bool   // with fresh and tls: a connection resumes the session of the last
	streams     int    // clients speak HTTP/2, with so many requests at once on a connection; 0: HTTP/1.1
	secured     bool   // gateways beside themselves with all that secures a route on
	token       string // clients show it; empty: none
}

// host is what clients of the load call the proxy.
const host = "bench.example"

func loads() []load {
	var all []load
	for _, n := range []int{1, 8, 64, 256, 1024} {
		all = append(all, load{name: fmt.Sprintf("small-%d", n), title: "256 bytes of JSON, keep-alive, " + count(n, "connection"), connections: n, path: "/", length: 256})
	}
	return append(all,
		load{name: "connect", title: "256 bytes of JSON, a new connection for each request, 64 at a time", connections: 64, path: "/", length: 256, fresh: true},
		load{name: "answer-100k", title: "answers of 100 KiB, 32 connections", connections: 32, path: "/100k", length: 100 << 10},
		load{name: "answer-1m", title: "answers of 1 MiB, 8 connections", connections: 8, path: "/1m", length: 1 << 20},
		load{name: "upload-1m", title: "requests of 1 MiB, 8 connections", connections: 8, path: "/upload", length: 1 << 20, upload: true},
		load{name: "idle", title: "idle keep-alive connections", connections: 10000, path: "/", length: 256, idle: true},

		load{name: "secured", title: "256 bytes of JSON, keep-alive, 64 connections: bare, and with what secures a route", connections: 64, path: "/", length: 256, secured: true},

		load{name: "tls-64", title: "TLS, 256 bytes of JSON, keep-alive, 64 connections", connections: 64, path: "/", length: 256, tls: true},
		load{name: "tls-256", title: "TLS, 256 bytes of JSON, keep-alive, 256 connections", connections: 256, path: "/", length: 256, tls: true},
		load{name: "tls-connect", title: "TLS, 256 bytes of JSON, a full handshake for each request, 64 at a time", connections: 64, path: "/", length: 256, fresh: true, tls: true},
		load{name: "tls-resume", title: "TLS, 256 bytes of JSON, a resumed session for each request, 64 at a time", connections: 64, path: "/", length: 256, fresh: true, tls: true, resumed: true},
		load{name: "tls-100k", title: "TLS, answers of 100 KiB, 32 connections", connections: 32, path: "/100k", length: 100 << 10, tls: true},
		load{name: "h2", title: "HTTP/2 over TLS, 256 bytes of JSON, 8 connections of 32 streams", connections: 8, streams: 32, path: "/", length: 256, tls: true},
		load{name: "h2c", title: "HTTP/2 in clear, 256 bytes of JSON, 8 connections of 32 streams", connections: 8, streams: 32, path: "/", length: 256},
		load{name: "h2-100k", title: "HTTP/2 over TLS, answers of 100 KiB, 8 connections of 4 streams", connections: 8, streams: 4, path: "/100k", length: 100 << 10, tls: true},
		load{name: "tls-idle", title: "idle keep-alive connections over TLS", connections: 2000, path: "/", length: 256, idle: true, tls: true},
	)
}

// in tells whether there is anything to measure of a proxy: what does not know
// HTTP knows neither TLS nor HTTP/2, without a proxy no memory is one's, and what
// is secured is a matter of gateways.
func (l load) in(p proxy) bool {
	if p.secured && !l.secured || l.secured && p.engine == "" && p.name != baseline {
		return false
	}
	return (!p.opaque || !l.tls && l.streams == 0) && (!l.idle || p.command != nil)
}

// rated tells whether the load is also put on at a given rate. h2load knows none
// whose latency counts from when a request was due.
func (l load) rated() bool { return !l.idle && l.streams == 0 }

func (l load) scheme() string {
	if l.tls {
		return "https"
	}
	return "http"
}

func (l load) url(address string) string { return l.scheme() + "://" + address + l.path }

// by is the load as a proxy is to have it: only those that verify tokens are shown one.
func (l load) by(p proxy, t token) load {
	if p.secured {
		l.token = t.text
	}
	return l
}

// inClear is the load as the endpoint itself knows it.
func (l load) inClear() load {
	l.tls, l.resumed, l.streams = false, false, 0
	return l
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	digits := strconv.Itoa(n)
	if len(digits) > 3 {
		digits = digits[:len(digits)-3] + "," + digits[len(digits)-3:]
	}
	return digits + " " + what + "s"
}

// arguments tells the client what load this is.
func (l load) arguments() []string {
	a := []string{"-c", strconv.Itoa(l.connections), "-u", l.path}
	if l.upload {
		a = append(a, "-b", strconv.Itoa(l.length))
	} else {
		a = append(a, "-l", strconv.Itoa(l.length))
	}
	if l.fresh {
		a = append(a, "-n")
	}
	if l.idle {
		a = append(a, "-i")
	}
	if l.tls {
		a = append(a, "-t")
	}
	if l.resumed {
		a = append(a, "-s")
	}
	if field := l.authorization(); field != "" {
		a = append(a, "-h", "Authorization: "+field)
	}
	return a
}

// choose narrows cases and proxies to those that the expression names. What it
// names none of is not narrowed. The baseline is always there.
func choose(only string) ([]load, []proxy, error) {
	cases, proxies := loads(), proxies()
	if only == "" {
		return cases, proxies, nil
	}
	expression, err := regexp.Compile("^(?:" + only + ")$")
	if err != nil {
		return nil, nil, fmt.Errorf("%w: -only: %w", errUsage, err)
	}
	var someCases []load
	var someProxies []proxy
	named := 0
	for _, c := range cases {
		if expression.MatchString(c.name) {
			someCases = append(someCases, c)
		}
	}
	for _, p := range proxies {
		match := expression.MatchString(p.name)
		if match {
			named++
		}
		if match || p.name == baseline {
			someProxies = append(someProxies, p)
		}
	}
	if len(someCases) == 0 {
		someCases = cases
	}
	if named == 0 {
		someProxies = proxies
		if len(someCases) == len(cases) {
			var names []string
			for _, c := range cases {
				names = append(names, c.name)
			}
			for _, p := range proxies {
				names = append(names, p.name)
			}
			return nil, nil, fmt.Errorf("%w: nothing is named %q; there are %s", errUsage, only, strings.Join(names, ", "))
		}
	}
	return someCases, someProxies, nil
}
