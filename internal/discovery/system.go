package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/regularfile"
)

// system is what a look-up takes of the machine.
type system struct {
	hosts    string // path of hosts(5)
	resolv   string // path of resolv.conf(5)
	hostname func() (string, error)
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	// routed tells whether the machine has a way to an address.
	routed func(ctx context.Context, address netip.Addr) bool
	random func() float64 // from 0 to 1
}

// fileLimit is what is read of a file at most; lists of unwanted hosts are long.
const fileLimit = 64 << 20

func machine() system {
	var dialer net.Dialer
	return system{
		hosts:    "/etc/hosts",
		resolv:   "/etc/resolv.conf",
		hostname: os.Hostname,
		dial:     dialer.DialContext,
		routed:   routed,
		random:   rand.Float64,
	}
}

// routed asks the system for its way to an address, for which nothing is sent.
func routed(ctx context.Context, address netip.Addr) bool {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(address, 9).String())
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}

// servers are who is asked, and how.
type servers struct {
	dns.ClientConfig        // Servers are host:port here
	rotate           bool   // each look-up begins at another server
	network          string // udp, or tcp for all questions
	timeout          time.Duration
}

// own are the settings for one server that the configuration names.
func own(resolver string) servers {
	return servers{ClientConfig: dns.ClientConfig{Servers: []string{resolver}, Attempts: 2}, network: "udp", timeout: 5 * time.Second}
}

// servers reads resolv.conf. Without the file, or without a server in it, a
// server on this machine is asked, as resolv.conf(5) has it.
func (s *system) servers() (servers, error) {
	text, err := read(s.resolv)
	if err != nil {
		return servers{}, err
	}
	config, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil {
		return servers{}, fmt.Errorf("%s: %w", s.resolv, err)
	}
	if len(config.Servers) == 0 {
		config.Servers = []string{"127.0.0.1", "::1"}
	}
	for i, server := range config.Servers {
		config.Servers[i] = net.JoinHostPort(server, config.Port)
	}
	if len(config.Search) == 0 {
		if name, err := s.hostname(); err == nil {
			if _, domain, ok := strings.Cut(name, "."); ok {
				config.Search = []string{domain}
			}
		}
	}
	// The root as a suffix is the name itself, which is asked for in any case.
	config.Search = slices.DeleteFunc(config.Search, func(suffix string) bool { return suffix == "." })
	out := servers{ClientConfig: *config, network: "udp", timeout: time.Duration(config.Timeout) * time.Second}
	// What the library does not read.
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "options" {
			out.rotate = out.rotate || slices.Contains(fields, "rotate")
			if slices.Contains(fields, "use-vc") {
				out.network = "tcp"
			}
		}
	}
	return out, nil
}

// table reads the hosts file: addresses by name, in lower case.
func (s *system) table() (map[string][]netip.Addr, error) {
	text, err := read(s.hosts)
	if err != nil {
		return nil, err
	}
	table := map[string][]netip.Addr{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue // as others do, who share the file
		}
		for _, name := range fields[1:] {
			name = hostsName(name)
			table[name] = append(table[name], address)
		}
	}
	return table, nil
}

func hostsName(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// read reads a file of the system; one that does not exist is empty.
func read(path string) ([]byte, error) {
	text, err := regularfile.Read(path, fileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, regularfile.Reason(err))
	}
	return text, nil
}
