// Package gatewaytest runs whole gateways inside a test, on free ports, with
// scripted endpoints behind them. It is for tests only.
package gatewaytest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/logtest"
	"sluice/internal/pipeline"
	"sluice/internal/provider/file"
	"sluice/internal/waittest"
)

// Patience bounds every wait for a condition; a machine under load is slow.
const Patience = 30 * time.Second

// Gateway is a gateway that runs until its test ends.
type Gateway struct {
	*app.Gateway
	admin
	t      testing.TB
	file   string
	access logtest.Buffer
	log    logtest.Buffer // the last of it
	stop   context.CancelFunc
	done   chan error
}

// Start runs a gateway on a configuration, and waits until it serves. Its
// listeners and admin API should have port 0. The test fails where the
// configuration is refused. It may use kinds of middleware that are the test's
// own.
func Start(t testing.TB, config string, kinds ...pipeline.Kind) *Gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	replace(t, file, config)
	return StartFile(t, file, kinds...)
}

// StartFile is Start on a configuration that lies in a file already.
func StartFile(t testing.TB, path string, kinds ...pipeline.Kind) *Gateway {
	t.Helper()
	g := &Gateway{t: t, file: path, done: make(chan error, 1)}
	g.log.Most = 1 << 20 // it has a line for each exchange that fails
	g.admin = newAdmin(t, func() net.Addr { return g.AdminAddr() })
	log := slog.New(slog.NewTextHandler(&g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g.Gateway = app.New(app.Options{Source: file.New(g.file, file.Options{Logger: log}), Log: log, Stdout: &g.access, Stderr: &g.access, Kinds: kinds, Engine: Engine()})
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	go func() { g.done <- g.Run(ctx) }()
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.log.String())
		}
	})
	select {
	case <-g.Serving():
	case err := <-g.done:
		g.done <- nil
		t.Fatalf("the gateway did not start: %v", err)
	case <-time.After(Patience):
		t.Fatal("the gateway does not serve")
	}
	return g
}

// Stop drains the gateway and returns what Run returned; a second call does
// nothing.
func (g *Gateway) Stop() error {
	g.stop()
	err := <-g.done
	g.done <- nil
	return err
}

// File is the path of the configuration file.
func (g *Gateway) File() string { return g.file }

// Write replaces the configuration file, and does not wait for the reload.
func (g *Gateway) Write(config string) {
	g.t.Helper()
	replace(g.t, g.file, config)
}

// Load replaces the configuration and waits until it serves.
func (g *Gateway) Load(config string) {
	g.t.Helper()
	before := g.Current().Revision.Number
	g.Write(config)
	WaitFor(g.t, "the new configuration serves", func() bool { return g.revision() > before })
}

// revision is the one that the metrics tell, which is that of the last change
// that is over: listeners follow the swap of the snapshot.
func (g *Gateway) revision() int {
	families, err := g.Gatherer().Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "gateway_config_revision" {
			return int(family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	g.t.Fatal("the metrics tell no revision")
	return 0
}

// URL is the base URL of a listener.
func (g *Gateway) URL(listener string) string { return "http://" + g.Addr(listener).String() }

// AdminURL is the base URL of the admin API.
func (g *Gateway) AdminURL() string { return "http://" + g.AdminAddr().String() }

// LogLine waits for the access log line of a request id, in JSON.
func (g *Gateway) LogLine(id string) map[string]any {
	g.t.Helper()
	return g.LogLineWith("request_id", id)
}

// LogLineWith waits for the first access log line with this value, in JSON. The
// value needs no escapes.
func (g *Gateway) LogLineWith(field, value string) map[string]any {
	g.t.Helper()
	var line map[string]any
	WaitFor(g.t, "the log line with "+field+" "+value, func() bool {
		for text := range strings.Lines(g.access.String()) {
			// Others are not read: there may be thousands.
			if !strings.Contains(text, value) || !strings.HasSuffix(text, "\n") {
				continue
			}
			if line = g.logLine(text); line[field] == value {
				return true
			}
		}
		return false
	})
	return line
}

// LogLines are the access log lines so far, in JSON.
func (g *Gateway) LogLines() (lines []map[string]any) {
	g.t.Helper()
	for text := range strings.Lines(g.access.String()) {
		if !strings.HasSuffix(text, "\n") {
			break // not written whole yet
		}
		lines = append(lines, g.logLine(text))
	}
	return lines
}

func (g *Gateway) logLine(text string) (line map[string]any) {
	g.t.Helper()
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		g.t.Fatalf("a log line is no JSON: %q: %v", text, err)
	}
	return line
}

// ProcessLog is what the gateway has logged about itself so far.
func (g *Gateway) ProcessLog() string { return g.log.String() }

// Dial connects to a listener; the connection closes with the test.
func (g *Gateway) Dial(listener string) net.Conn {
	g.t.Helper()
	conn, err := net.DialTimeout("tcp", g.Addr(listener).String(), Patience)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		g.t.Fatal(err)
	}
	return conn
}

// WaitFor is waittest.Until.
func WaitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	waittest.Until(t, what, condition)
}
