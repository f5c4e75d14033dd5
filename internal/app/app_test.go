package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/gatewaytest"
	"sluice/internal/logtest"
	"sluice/internal/model"
	"sluice/internal/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a provider that says what a test wants.
type source struct {
	updates chan provider.Update
	fail    chan error

	mu      sync.Mutex
	watched []string
	reloads int
}

func newSource() *source { return &source{updates: make(chan provider.Update), fail: make(chan error)} }

func (s *source) Name() string { return "test" }

func (s *source) Run(ctx context.Context, out func(provider.Update)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case update := <-s.updates:
			out(update)
		case err := <-s.fail:
			return err
		}
	}
}

func (s *source) Watch(files []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = slices.Clone(files)
}

func (s *source) Reload() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reloads++
}

// running is a gateway with its source.
type running struct {
	*app.Gateway
	*source
	t    *testing.T
	log  *logtest.Buffer
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, edits ...func(*app.Options)) *running {
	t.Helper()
	r := &running{source: newSource(), t: t, log: &logtest.Buffer{}, done: make(chan error, 1)}
	options := app.Options{Source: r.source, Log: slog.New(slog.NewTextHandler(r.log, nil)), Stdout: io.Discard, Stderr: io.Discard}
	for _, edit := range edits {
		edit(&options)
	}
	r.Gateway = app.New(options)
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.done <- r.Gateway.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		_ = r.end() // tests that mind have asked before
		if t.Failed() {
			t.Logf("log:\n%s", r.log)
		}
	})
	return r
}

// end waits until Run has returned.
func (r *running) end() error {
	err := <-r.done
	r.done <- nil
	return err
}

const small = "listeners: {web: {address: \"127.0.0.1:0\"}}\nadmin: {address: \"127.0.0.1:0\"}\naccess_log: {output: none}\n"

// say sends an update of one document; when it returns, the update before the
// last has been applied.
func (r *running) say(text string, problems ...model.Problem) {
	r.updates <- provider.Update{Source: "test", Documents: []config.Document{{Name: "it.yaml", Dir: "/", Provider: "test", Data: []byte(text)}}, Problems: problems}
}

func routes(paths ...string) string {
	text := small + "routes:\n"
	for _, path := range paths {
		text += fmt.Sprintf("  - {match: {path: %s}, respond: {status: 204}}\n", path)
	}
	return text
}

func (r *running) revision() int {
	if s := r.Current(); s != nil {
		return s.Revision.Number
	}
	return 0
}

func (r *running) metric(name string, label string) (sum float64) {
	r.t.Helper()
	families, err := r.Gatherer().Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		for _, sample := range family.GetMetric() {
			if family.GetName() != name || label != "" && sample.GetLabel()[0].GetValue() != label {
				continue
			}
			sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
		}
	}
	return sum
}

func TestApply(t *testing.T) {
	r := run(t)
	if r.Ready() || r.Current() != nil || r.Addr("web") != nil || r.AdminAddr() != nil || r.Problems() != nil {
		t.Error("it serves before it was told what")
	}
	r.ReopenLog() // nothing to reopen yet
	r.say(routes("/a"))
	<-r.Serving()
	if !r.Ready() || r.revision() != 1 || r.Addr("none") != nil || len(r.Problems()) != 0 || r.metric("gateway_config_revision", "") != 1 {
		t.Errorf("revision %d, problems %v", r.revision(), r.Problems())
	}
	first, web, admin := r.Current(), r.Addr("web").String(), r.AdminAddr().String()

	r.say(routes("/a")) // the same
	r.say(routes("/a", "/a"))
	gatewaytest.WaitFor(t, "the problem shows", func() bool { return len(r.Problems()) == 1 })
	if r.Current() != first || !model.Refused(r.Problems()) || !r.Ready() {
		t.Errorf("a refused document changed something: %v", r.Problems())
	}
	if ok, refused := r.metric("gateway_config_reloads_total", "success"), r.metric("gateway_config_reloads_total", "failure"); ok+refused != 2 || refused != 1 {
		t.Errorf("%v reloads served, %v refused", ok, refused)
	}
	if n := strings.Count(r.log.String(), "level=ERROR msg=\"configuration refused\" problem=\"it.yaml:6:5: "); n != 1 {
		t.Errorf("told %d times", n)
	}

	r.say("a: [") // no YAML
	r.say(routes("/a"), model.Problem{Position: model.Position{File: "other.yaml"}, Message: "the file does not exist"})
	gatewaytest.WaitFor(t, "the provider's problem shows", func() bool {
		return len(r.Problems()) == 1 && r.Problems()[0].Error() == "other.yaml: the file does not exist"
	})
	if r.Current() != first {
		t.Error("documents with a problem of their provider were taken")
	}

	r.say(routes("/a")) // what serves already; the problems are over
	gatewaytest.WaitFor(t, "no problem shows", func() bool { return len(r.Problems()) == 0 })
	if r.Current() != first {
		t.Error("the same documents made a revision")
	}

	r.say(routes("/a") + "upstreams: {spare: {endpoints: [\"http://127.0.0.1:1\"]}}\n")
	gatewaytest.WaitFor(t, "a revision with a warning serves", func() bool { return r.revision() == 2 })
	gatewaytest.WaitFor(t, "the warning shows", func() bool { return len(r.Problems()) == 1 && r.Problems()[0].Warning })
	if !strings.Contains(r.log.String(), "level=WARN msg=configuration problem=\"it.yaml:") {
		t.Error("the warning is not logged")
	}
	if r.Addr("web").String() != web || r.AdminAddr().String() != admin {
		t.Error("the sockets are others after a reload")
	}
	list := r.History().List()
	if len(list) != 2 || list[0].Source != "test" || list[0].SHA256 == list[1].SHA256 || list[0].Time.Before(list[1].Time) {
		t.Errorf("the history is %v", list)
	}
	r.Gateway.Reload()
	if r.reloads != 1 {
		t.Errorf("%d reloads were asked for", r.reloads)
	}

	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if r.Ready() {
		t.Error("it is ready after its end")
	}
}

// TestReloadOfTheSame tells whoever asked for a reload that nothing changed, and
// nobody else.
func TestReloadOfTheSame(t *testing.T) {
	r := run(t)
	r.say(routes("/a"))
	<-r.Serving()
	r.say(routes("/a"))
	document := config.Document{Name: "it.yaml", Dir: "/", Provider: "test", Data: []byte(routes("/a"))}
	r.updates <- provider.Update{Source: "test", Documents: []config.Document{document}, Forced: true}
	r.say(routes("/a"))
	r.say(routes("/b"))
	gatewaytest.WaitFor(t, "the last change serves", func() bool { return r.revision() == 2 })
	if n := strings.Count(r.log.String(), "the documents did not change"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestWatchedFiles(t *testing.T) {
	r := run(t)
	missing := filepath.Join(t.TempDir(), "missing")
	r.say(routes("/a"))
	<-r.Serving()
	r.say(strings.Replace(routes("/a"), "status: 204", "status: 200, body: '${file:"+missing+"}'", 1))
	gatewaytest.WaitFor(t, "the missing file is a problem", func() bool { return model.Refused(r.Problems()) })
	r.source.mu.Lock()
	defer r.source.mu.Unlock()
	if !slices.Equal(r.watched, []string{missing}) {
		t.Errorf("watched are %v", r.watched)
	}
}

// TestChangesAreSerialised sends many changes while others look.
func TestChangesAreSerialised(t *testing.T) {
	r := run(t)
	r.say(routes("/a"))
	<-r.Serving()
	ctx, stop := context.WithCancel(t.Context())
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			last := 0
			for ctx.Err() == nil {
				s := r.Current()
				if s.Revision.Number < last || len(s.Gateway.Routes) != s.Revision.Number {
					t.Errorf("revision %d after %d, with %d routes", s.Revision.Number, last, len(s.Gateway.Routes))
				}
				last = s.Revision.Number
				if r.AdminAddr() == nil || r.Addr("web") == nil || len(r.Problems()) != 0 || len(r.History().List()) == 0 {
					t.Error("half a change shows")
				}
			}
		})
	}
	paths := []string{"/a"}
	for n := range 30 {
		paths = append(paths, fmt.Sprintf("/p%d", n))
		r.say(routes(paths...))
		r.say(routes(paths...)) // no revision
	}
	gatewaytest.WaitFor(t, "the last change serves", func() bool { return r.revision() == 31 })
	stop()
	lookers.Wait()
}

func TestFirstConfigurationThatIsRefused(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	taken := holder.Addr().String()
	for name, test := range map[string]struct{ text, want string }{
		"problems":                   {routes("/a", "/b") + "nonsense: 1\nroutine: 2\n", "it.yaml:7:1: unknown key \"nonsense\""},
		"a listener's port is taken": {strings.Replace(routes("/a"), `web: {address: "127.0.0.1:0"}`, `web: {address: "`+taken+`"}`, 1), "it.yaml:1:28: cannot listen on " + taken + ": address already in use"},
		"the admin's port is taken":  {strings.Replace(routes("/a"), `admin: {address: "127.0.0.1:0"}`, `admin: {address: "`+taken+`"}`, 1), "it.yaml:2:18: cannot listen on " + taken + ": address already in use"},
		"a log that cannot be":       {strings.Replace(routes("/a"), "output: none", "output: /nowhere/access.log", 1), "it.yaml: the access log cannot be opened: open /nowhere/access.log: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t)
			r.say(test.text)
			err := r.end()
			var refused *app.RefusedError
			if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if lines := strings.Count(err.Error(), "\n") + 1; lines != len(refused.Problems) {
				t.Errorf("%d lines for %d problems", lines, len(refused.Problems))
			}
			if r.Current() != nil || r.Ready() || r.metric("gateway_config_reloads_total", "failure") != 1 {
				t.Error("it serves")
			}
			if r.log.String() != "" {
				t.Errorf("it is told twice: %s", r.log)
			}
		})
	}
}

// TestReloadThatCannotListen leaves nothing half done.
func TestReloadThatCannotListen(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	r := run(t)
	r.say(routes("/a"))
	<-r.Serving()
	first := r.Current()
	r.say(strings.Replace(routes("/b"), "listeners: {", fmt.Sprintf("listeners: {free: {address: \"127.0.0.1:0\"}, taken: {address: %q}, ", holder.Addr()), 1))
	gatewaytest.WaitFor(t, "the problem shows", func() bool { return len(r.Problems()) == 1 })
	if r.Current() != first {
		t.Error("it serves")
	}
	if p := r.Problems()[0]; p.Error() != fmt.Sprintf("it.yaml:1:62: cannot listen on %s: address already in use (it is tried again every 2s)", holder.Addr()) || !strings.HasPrefix(p.Source, "listeners: {free") {
		t.Errorf("got %v at %q", p, p.Source)
	}
	response, err := http.Get("http://" + r.Addr("web").String() + "/a")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 204 {
		t.Errorf("the old snapshot answers %d", response.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestProviderThatEnds(t *testing.T) {
	cause := errors.New("the source is gone")
	for name, test := range map[string]struct {
		serving bool
		err     error
		want    string
	}{
		"before the first documents": {false, cause, "watching the configuration: the source is gone"},
		"while it serves":            {true, cause, "watching the configuration: the source is gone"},
		"without an error":           {true, nil, "watching the configuration: it ended"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t)
			if test.serving {
				r.say(routes("/a"))
				<-r.Serving()
			}
			r.fail <- test.err
			err := r.end()
			if err == nil || err.Error() != test.want || test.err != nil && !errors.Is(err, test.err) || r.Ready() {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEndBeforeTheFirstDocuments(t *testing.T) {
	r := run(t)
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if err := r.HandOver(t.Context(), [3]*os.File{}); err == nil || err.Error() != "nothing serves yet" {
		t.Errorf("a hand-over of nothing: %v", err)
	}
}

func TestKindsAreOneEach(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range app.Kinds() {
		if seen[kind.Name] {
			t.Errorf("%s is listed twice", kind.Name)
		}
		seen[kind.Name] = true
	}
	for _, name := range []string{"headers", "body_limit", "ip_filter"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
