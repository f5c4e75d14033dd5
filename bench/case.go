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
	fresh       bool // a connection for each request
	idle        bool // connections that do nothing after one request: memory
}

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
	)
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
