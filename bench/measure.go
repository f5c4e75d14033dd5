//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	minRounds = 5 // fewer say too little to be written down
)

// bench is one run: what it measures with, and what stays for its length.
type bench struct {
	programs    programs
	client      client
	verifier    *verifier
	ports       *ports
	certificate certificate
	token       token
	endpoint    string // its address
	directory   string
	descriptors int
	duration    time.Duration
	warm        time.Duration // before each
	settle      time.Duration // until memory is read with idle connections
	speech
	rates   map[string]float64 // of half load, by case
	looked  map[string]bool    // proxies whose fields were looked at, with what clients spoke
	results *results
}

func measure(ctx context.Context, o options, cases []load, proxies []proxy, progress speech) (*results, error) {
	descriptors, err := raiseLimit()
	if err != nil {
		return nil, err
	}
	p, err := build(ctx, o, proxies, progress)
	if err != nil {
		return nil, err
	}
	directory, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	shown, err := makeCertificate(directory)
	if err != nil {
		return nil, err
	}
	issued, err := makeToken(directory)
	if err != nil {
		return nil, err
	}
	b := &bench{
		programs: p, client: client{program: p.load, h2load: p.h2load}, certificate: shown, token: issued, verifier: newVerifier(shown.roots), ports: &ports{},
		directory: directory, descriptors: descriptors, duration: o.duration, warm: 300 * time.Millisecond, settle: time.Second,
		speech: progress,
		rates:  map[string]float64{},
		looked: map[string]bool{},
		results: &results{
			Machine: machine(ctx), Time: time.Now().UTC(), Rounds: o.rounds, Duration: o.duration,
			Versions: p.versions(ctx), Fields: map[string]fields{}, Rates: map[string]float64{},
		},
	}
	if b.endpoint, err = b.ports.address(ctx); err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(b.endpoint, ":")
	endpoint, err := b.start(ctx, "endpoint", []string{p.endpoint, port}, b.endpoint)
	if err != nil {
		return nil, err
	}
	defer endpoint.stop()
	for _, c := range cases {
		if err := b.verifier.verify(ctx, b.endpoint, c.inClear(), true); err != nil {
			return nil, fmt.Errorf("the endpoint: %w", err)
		}
	}
	if err := b.calibrate(ctx, cases, proxies); err != nil {
		return nil, err
	}
	for round := range o.rounds {
		for _, c := range cases {
			for i := range proxies {
				// Each round begins with another one, so that none is always
				// measured after the same neighbour.
				p := proxies[(i+round)%len(proxies)]
				s, err := b.sample(ctx, c, p, round)
				if err != nil {
					return nil, fmt.Errorf("round %d, %s, %s: %w", round+1, c.name, p.name, err)
				}
				if s != nil {
					b.results.Samples = append(b.results.Samples, *s)
					progress.say("%d/%d %-12s %-24s %s", round+1, o.rounds, c.name, p.name, s)
				}
			}
		}
	}
	return b.results, nil
}

func machine(ctx context.Context) string {
	said, err := exec.CommandContext(ctx, "scripts/machine").Output()
	if err != nil {
		return "unknown machine"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(said)), "machine: ")
}

// settings chooses addresses for a proxy and writes its configuration for a case.
func (b *bench) settings(ctx context.Context, c load, p proxy, directory string) (settings, error) {
	s := settings{
		Endpoint: b.endpoint, Directory: directory, programs: b.programs,
		Cores: runtime.NumCPU(), Connections: 10100, Descriptors: b.descriptors,
		TLS: c.tls, HTTP2: c.streams > 0, Scheme: c.scheme(), Certificate: b.certificate.file, Key: b.certificate.key,
		Issuer: issuer, IssuerKey: b.token.key,
	}
	var err error
	if s.Listen, err = b.ports.address(ctx); err != nil {
		return s, err
	}
	if s.Admin, err = b.ports.address(ctx); err != nil {
		return s, err
	}
	err = p.configure(&s)
	return s, err
}

func (b *bench) start(ctx context.Context, name string, command []string, address string) (*process, error) {
	directory := filepath.Join(b.directory, name)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	started, err := start(ctx, directory, command)
	if err != nil {
		return nil, err
	}
	if err := started.waitReady(ctx, address); err != nil {
		started.stop()
		return nil, err
	}
	return started, nil
}

// calibrate sets the rate of half load for each case: half of what passes
// through the baseline when it is saturated. Every proxy gets the same.
func (b *bench) calibrate(ctx context.Context, cases []load, proxies []proxy) error {
	for _, c := range cases {
		if !c.rated() {
			continue
		}
		for _, p := range proxies {
			if p.name != baseline {
				continue
			}
			err := b.with(ctx, c, p, func(address string, ids []int) error {
				o, err := b.client.put(ctx, address, c, 0, b.warm, b.duration, ids, nil)
				if err == nil {
					b.rates[c.name] = o.perSecond() / 2
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("calibration, %s: %w", c.name, err)
			}
		}
		b.results.Rates[c.name] = b.rates[c.name]
		b.say("bench: half load of %s is %.0f/s", c.name, b.rates[c.name])
	}
	return nil
}

// with runs a proxy, set up for a case, for as long as do takes. ids are its
// processes.
func (b *bench) with(ctx context.Context, c load, p proxy, do func(address string, ids []int) error) error {
	if p.command == nil {
		return do(b.endpoint, nil)
	}
	directory := filepath.Join(b.directory, p.name)
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	s, err := b.settings(ctx, c, p, directory)
	if err != nil {
		return err
	}
	started, err := b.start(ctx, p.name, p.command(s), s.Listen)
	if err != nil {
		return err
	}
	defer started.stop()
	if err := b.lookAtFields(ctx, c, p, s.Listen); err != nil {
		return fmt.Errorf("%w: %s", err, started.printed())
	}
	processes := 1
	if p.workers {
		processes += runtime.NumCPU()
	}
	ids, err := started.family(ctx, processes)
	if err != nil {
		return err
	}
	if err := do(s.Listen, ids); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %s", err, started.printed())
	}
	return nil
}

// lookAtFields holds a proxy to the fields it has to set, once for each thing
// that clients speak, and keeps what it added the first time.
func (b *bench) lookAtFields(ctx context.Context, c load, p proxy, address string) error {
	form := fmt.Sprintf("%s, TLS %t, HTTP/2 %t", p.name, c.tls, c.streams > 0)
	if p.opaque || b.looked[form] {
		return nil
	}
	request, response, err := b.verifier.fields(ctx, address, c)
	if err != nil {
		return err
	}
	b.looked[form] = true
	if _, known := b.results.Fields[p.name]; !known {
		b.results.Fields[p.name] = fields{Request: request, Response: response}
	}
	return nil
}

// sample measures one proxy in one case once; nil where there is nothing to
// measure.
func (b *bench) sample(ctx context.Context, c load, p proxy, round int) (*sample, error) {
	s := &sample{Round: round, Case: c.name, Proxy: p.name}
	if !c.in(p) {
		return nil, nil
	}
	c = c.by(p, b.token)
	err := b.with(ctx, c, p, func(address string, ids []int) error {
		if err := b.verifier.verify(ctx, address, c, false); err != nil {
			return err
		}
		if c.idle {
			return b.idle(ctx, c, p, address, ids, s)
		}
		var err error
		s.Saturated, err = b.client.put(ctx, address, c, 0, b.warm, b.duration, ids, func() (err error) {
			s.Resident, err = resident(ids)
			return err
		})
		if err != nil || !c.rated() {
			return err
		}
		s.Half, err = b.client.put(ctx, address, c, b.rates[c.name], b.warm, b.duration*2/3, ids, nil)
		return err
	})
	return s, err
}

// idle measures what connections cost that made one request and stay.
func (b *bench) idle(ctx context.Context, c load, p proxy, address string, ids []int, s *sample) error {
	const others = 400 // descriptors for everything else
	c.connections = min(c.connections, (b.descriptors-others)/max(1, p.sockets))
	s.Connections = c.connections
	before, err := resident(ids)
	if err != nil {
		return err
	}
	_, err = b.client.put(ctx, address, c, 0, 0, 0, ids, func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.settle):
		}
		s.Resident, err = resident(ids)
		s.PerConnection = float64(s.Resident-before) / float64(c.connections)
		return err
	})
	return err
}
