//go:build linux

package main

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"
)

// baseline is the proxy that ratios are taken to.
const baseline = "nginx"

// securedSuffix ends the name of a gateway that is secured; what stands before it is that of
// the bare one.
const securedSuffix = "-secured"

// proxy is one of those that are measured.
type proxy struct {
	name  string
	title string
	// configuration is the file that it is started with, below
	// configuration/; empty if it takes arguments only.
	configuration string
	// command starts it; settings tells it where.
	command func(s settings) []string
	// opaque says that it does not know HTTP: it edits nothing.
	opaque bool
	// engine is that of a gateway.
	engine string
	// secured says that it does all that secures a route (configuration/sluice.yaml),
	// and takes nobody without a token.
	secured bool
	// colour stands out on light and on dark ground and from the others, also
	// for the colour-blind (after Okabe and Ito).
	colour string
	// workers says that it starts a process per core.
	workers bool
	// sockets is how many it needs for one client that is connected.
	sockets int
}

// settings is what one start of a proxy is told. The configurations are
// templates over it.
type settings struct {
	Listen, Endpoint, Admin string
	Host                    string // of Listen
	Port                    int    // of Listen
	Engine                  string
	Directory               string // its own, for what it writes
	File                    string // its configuration
	Cores, Connections      int
	Descriptors             int
	// What clients speak at Listen: TLS, and HTTP/2 if only in clear; over TLS
	// that is theirs to choose.
	TLS, HTTP2       bool
	Scheme           string
	Certificate, Key string // files
	// Secured has a gateway verify tokens of Issuer by IssuerKey, a file, and limit,
	// log and count what passes.
	Secured           bool
	Issuer, IssuerKey string
	programs          programs
}

//go:embed configuration
var configurations embed.FS

func proxies() []proxy {
	sluice := func(engine, colour string) proxy {
		return proxy{
			name:          "sluice-" + engine,
			title:         "Sluice, `engine: " + engine + "`",
			configuration: "sluice.yaml",
			command:       func(s settings) []string { return []string{s.programs.sluice, "run", "-c", s.File} },
			engine:        engine,
			colour:        colour,
		}
	}
	secured := func(p proxy) proxy {
		p.name, p.title, p.secured = p.name+securedSuffix, p.title+", secured", true
		return p
	}
	loop, goroutine := sluice("loop", "#d55e00"), sluice("goroutine", "#e69f00")
	return []proxy{
		{
			name:          baseline,
			title:         "nginx",
			configuration: "nginx.conf",
			command: func(s settings) []string {
				return []string{s.programs.nginx, "-p", s.Directory, "-e", "stderr", "-c", s.File}
			},
			workers: true,
		},
		loop,
		goroutine,
		secured(loop),
		secured(goroutine),
		{
			name:          "haproxy",
			title:         "HAProxy",
			configuration: "haproxy.cfg",
			command:       func(s settings) []string { return []string{s.programs.haproxy, "-db", "-f", s.File} },
			colour:        "#0072b2",
		},
		{
			name:          "caddy",
			title:         "Caddy",
			configuration: "Caddyfile",
			colour:        "#009e73",
			command: func(s settings) []string {
				return []string{s.programs.caddy, "run", "--adapter", "caddyfile", "--config", s.File}
			},
		},
		{
			name:   "reverseproxy",
			title:  "`httputil.ReverseProxy`",
			colour: "#cc79a7",
			command: func(s settings) []string {
				command := []string{s.programs.reverseproxy, s.Listen, s.Endpoint}
				if s.TLS {
					command = append(command, s.Certificate, s.Key)
				}
				return command
			},
		},
		{
			name:    "relay",
			title:   "TCP relay",
			colour:  "#7f7f7f",
			command: func(s settings) []string { return []string{s.programs.relay, s.Listen, s.Endpoint} },
			opaque:  true,
			sockets: 2,
		},
		{
			name:   "direct",
			title:  "no proxy",
			opaque: true,
		},
	}
}

// configure writes the proxy's configuration into its directory.
func (p proxy) configure(s *settings) error {
	if p.configuration == "" {
		return nil
	}
	text, err := configurations.ReadFile("configuration/" + p.configuration)
	if err != nil {
		return err
	}
	parsed, err := template.New(p.configuration).Option("missingkey=error").Parse(string(text))
	if err != nil {
		return err
	}
	address, err := netip.ParseAddrPort(s.Listen)
	if err != nil {
		return err
	}
	s.Host, s.Port = address.Addr().String(), int(address.Port())
	s.Engine, s.Secured = p.engine, p.secured
	s.File = filepath.Join(s.Directory, p.configuration)
	var filled bytes.Buffer
	if err := parsed.Execute(&filled, s); err != nil {
		return fmt.Errorf("%s: %w", p.configuration, err)
	}
	return os.WriteFile(s.File, filled.Bytes(), 0o644)
}
