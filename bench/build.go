//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// programs are the paths of what is run.
type programs struct {
	sluice, nginx, haproxy, caddy, reverseproxy, relay string
	endpoint, load, h2load                             string
}

// build makes the programs that no package brings, and finds the others.
func build(ctx context.Context, o options, proxies []proxy, progress speech) (programs, error) {
	if err := os.MkdirAll(o.work, 0o755); err != nil {
		return programs{}, err
	}
	work, err := filepath.Abs(o.work)
	if err != nil {
		return programs{}, err
	}
	made := func(name string) string { return filepath.Join(work, name) }
	p := programs{
		caddy:        made("caddy"),
		reverseproxy: made("reverseproxy"),
		relay:        made("relay"),
		endpoint:     made("endpoint"),
		load:         made("load"),
	}
	if p.sluice, err = filepath.Abs(o.sluice); err != nil {
		return p, err
	}
	for _, installed := range []struct {
		name string
		path *string
	}{{"nginx", &p.nginx}, {"haproxy", &p.haproxy}, {"h2load", &p.h2load}} {
		if *installed.path, err = exec.LookPath(installed.name); err != nil {
			return p, fmt.Errorf("%w (scripts/bench-setup installs it)", err)
		}
	}
	compiler := "cc"
	if set, err := exec.CommandContext(ctx, "go", "env", "CC").Output(); err == nil && len(strings.Fields(string(set))) > 0 {
		compiler = strings.Fields(string(set))[0]
	}
	steps := [][]string{
		{compiler, "-O2", "-Wall", "-o", p.endpoint, "bench/endpoint/endpoint.c"},
		{compiler, "-O2", "-Wall", "-o", p.load, "bench/load/load.c", "-lm", "-lssl", "-lcrypto"},
		{"go", "-C", "bench", "build", "-trimpath", "-ldflags=-s -w", "-o", p.reverseproxy, "./reverseproxy"},
		{"go", "-C", "bench", "build", "-trimpath", "-ldflags=-s -w", "-o", p.relay, "./relay"},
	}
	for _, proxy := range proxies {
		if proxy.name == "caddy" {
			steps = append(steps, []string{"go", "-C", "bench/peers", "build", "-trimpath", "-ldflags=-s -w", "-o", p.caddy, "github.com/caddyserver/caddy/v2/cmd/caddy"})
		}
	}
	for _, step := range steps {
		progress.say("bench: %s", strings.Join(step, " "))
		command := exec.CommandContext(ctx, step[0], step[1:]...)
		command.Stderr = progress.to
		if err := command.Run(); err != nil {
			return p, fmt.Errorf("%s: %w", strings.Join(step, " "), err)
		}
	}
	return p, nil
}

var versionNumber = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// versions asks each proxy for its own.
func (p programs) versions(ctx context.Context) map[string]string {
	said := func(command ...string) string {
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err != nil {
			return ""
		}
		return versionNumber.FindString(string(out))
	}
	return map[string]string{
		"nginx":   said(p.nginx, "-v"),
		"haproxy": said(p.haproxy, "-v"),
		// Built as a tool it does not know its own.
		"caddy":        said("go", "-C", "bench/peers", "list", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2"),
		"reverseproxy": said("go", "env", "GOVERSION"),
	}
}
