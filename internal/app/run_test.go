package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/gatewaytest"
	"sluice/internal/logtest"
	"sluice/internal/provider"
	"sluice/internal/sockettest"
)

// stalled is a file system that answers nothing until it is mended.
type stalled struct {
	reading chan struct{} // closed with the first read
	mended  chan struct{}
	once    sync.Once
}

func (s *stalled) ReadFile(string) ([]byte, error) {
	s.once.Do(func() { close(s.reading) })
	<-s.mended
	return []byte("late"), nil
}

// status asks for a URL and returns the status and the body.
func status(t *testing.T, url string) (int, string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	return gatewaytest.Fetch(t, &http.Client{Transport: transport, Timeout: gatewaytest.Patience}, url)
}

// TestChangeThatHangs drains while a change waits for a file; the change ends
// after the gateway, and leaves nothing behind.
func TestChangeThatHangs(t *testing.T) {
	fs := &stalled{reading: make(chan struct{}), mended: make(chan struct{})}
	r := run(t, func(o *app.Options) { o.Environment = config.Environment{ReadFile: fs.ReadFile} })
	r.say(routes("/a"))
	<-r.Serving()
	first, web, admin := r.Current(), r.Addr("web").String(), r.AdminAddr().String()
	r.say(strings.Replace(routes("/a"), "status: 204", "status: 200, body: '${file:/stalled}'", 1))
	<-fs.reading

	if got, _ := status(t, "http://"+web+"/a"); got != 204 {
		t.Errorf("it answers %d meanwhile", got)
	}
	if got, body := status(t, "http://"+admin+"/_gateway/problems"); got != 200 || strings.TrimSpace(body) != "[]" {
		t.Errorf("problems: %d %s", got, body)
	}
	if r.AdminAddr().String() != admin || !r.Ready() {
		t.Error("the gateway is not ready any more")
	}
	if names, err := r.SocketNames(); err != nil || len(names) != 2 {
		t.Errorf("the sockets for a hand-over: %v, %v", names, err)
	}

	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if r.Ready() {
		t.Error("it is ready after its end")
	}
	close(fs.mended)
	gatewaytest.WaitFor(t, "all is given back", func() bool { return r.Idle() == nil })
	if r.Current() != first {
		t.Error("a change was taken after the end")
	}
}

// TestChangeIsTriedAgain takes a change once the address that it needs is free.
// Meanwhile it is told and counted once; a newer change takes its place.
func TestChangeIsTriedAgain(t *testing.T) {
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	address := holder.Addr().String()
	debug := &logtest.Buffer{}
	r := run(t, func(o *app.Options) {
		o.Log = slog.New(slog.NewTextHandler(debug, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.RetryEvery = time.Millisecond
	})
	change := strings.Replace(routes("/b"), "listeners: {", fmt.Sprintf("listeners: {more: {address: %q}, ", address), 1)
	r.say(routes("/a"))
	<-r.Serving()
	r.say(change)
	gatewaytest.WaitFor(t, "it is tried several times", func() bool { return strings.Count(debug.String(), `msg="configuration refused again"`) >= 5 })
	if refused, told := r.metric("gateway_config_reloads_total", "failure"), strings.Count(debug.String(), `msg="configuration refused"`); refused != 1 || told != 1 || len(r.Problems()) != 1 {
		t.Errorf("counted %v times, told %d times, problems %v", refused, told, r.Problems())
	}
	r.say(routes("/c"))
	gatewaytest.WaitFor(t, "the next change serves", func() bool { return r.revision() == 2 && len(r.Problems()) == 0 })
	r.say(change)
	gatewaytest.WaitFor(t, "the problem shows again", func() bool { return len(r.Problems()) == 1 })
	holder.Close()
	gatewaytest.WaitFor(t, "the address serves", func() bool { return r.revision() == 3 && len(r.Problems()) == 0 })
	if got, _ := status(t, "http://"+address+"/b"); got != 204 {
		t.Errorf("it answers %d", got)
	}
}

// deaf is a source that does not notice its end.
type deaf struct {
	*source
	end chan struct{}
}

func (d deaf) Run(ctx context.Context, out func(provider.Update)) error {
	err := d.source.Run(ctx, out)
	<-d.end
	return err
}

// TestSourceThatHangs ends all the same, as when a file is read from a file
// system that is gone.
func TestSourceThatHangs(t *testing.T) {
	d := deaf{end: make(chan struct{})}
	r := run(t, func(o *app.Options) {
		d.source, _ = o.Source.(*source)
		o.Source = d
	})
	r.say(routes("/a"))
	<-r.Serving()
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	close(d.end)
}

// TestDrainOfWhatAReloadLeft: exchanges of a listener that a reload removed
// finish, too, when the gateway ends.
func TestDrainOfWhatAReloadLeft(t *testing.T) {
	url, arrived, gate := gatewaytest.NewGated(t)
	config := func(listeners string) string {
		return fmt.Sprintf("listeners: {%s}\nadmin: {address: \"127.0.0.1:0\"}\naccess_log: {output: none}\nroutes: [{id: up, match: {path: /up}, upstream: %q}]\n", listeners, url)
	}
	r := run(t)
	r.say(config(`gone: {address: "127.0.0.1:0"}`))
	<-r.Serving()
	answered := make(chan string, 1)
	gone := r.Addr("gone").String()
	go func() {
		got, body := status(t, "http://"+gone+"/up")
		answered <- fmt.Sprint(got, body)
	}()
	<-arrived
	r.say(config(`web: {address: "127.0.0.1:0"}`))
	gatewaytest.WaitFor(t, "the next configuration serves", func() bool { return r.revision() == 2 })
	r.stop()
	gatewaytest.WaitFor(t, "it drains", func() bool { return strings.Contains(r.log.String(), "msg=draining") })
	select {
	case err := <-r.done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond): // as a gateway that does not wait would end
	}
	close(gate)
	if got := <-answered; got != "200late" {
		t.Errorf("the exchange ended with %s", got)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestStop drains at the first call and cuts at the second.
func TestStop(t *testing.T) {
	url, arrived, gate := gatewaytest.NewGated(t)
	defer close(gate)
	r := run(t)
	r.say(small + fmt.Sprintf("drain_timeout: 10m\nroutes: [{id: up, match: {path: /up}, upstream: %q}]\n", url))
	<-r.Serving()
	answered := make(chan int, 1)
	web := r.Addr("web").String()
	go func() {
		got, _ := status(t, "http://"+web+"/up")
		answered <- got
	}()
	<-arrived
	r.Stop()
	gatewaytest.WaitFor(t, "it drains", func() bool { return strings.Contains(r.log.String(), "msg=draining") })
	if r.Ready() {
		t.Error("it is ready")
	}
	r.Stop()
	if err := r.end(); !errors.Is(err, app.ErrCut) {
		t.Errorf("it ended with %v", err)
	}
	if got := <-answered; got != 503 {
		t.Errorf("the exchange ended with %d", got)
	}
	r.Stop() // is nothing
}

// TestAddressesChangeOnTheirPorts widens and narrows the addresses of a listener
// and of the admin API, which have to share their ports with themselves.
func TestAddressesChangeOnTheirPorts(t *testing.T) {
	ports := []string{sockettest.FreePort(t, "0.0.0.0"), sockettest.FreePort(t, "0.0.0.0")}
	r := run(t)
	for n, host := range []string{"127.0.0.1", "0.0.0.0", "127.0.0.1", "", "localhost"} {
		r.say(fmt.Sprintf("listeners: {web: {address: %q}}\nadmin: {address: %q, token: t0ken}\naccess_log: {output: none}\nroutes: [{match: {path: /p}, respond: {body: \"%d\"}}]\n", host+":"+ports[0], host+":"+ports[1], n))
		gatewaytest.WaitFor(t, fmt.Sprintf("%q serves", host), func() bool { return r.revision() == n+1 })
		if got, body := status(t, "http://127.0.0.1:"+ports[0]+"/p"); got != 200 || body != fmt.Sprint(n) {
			t.Errorf("%q answers %d %q", host, got, body)
		}
		if got, _ := status(t, "http://127.0.0.1:"+ports[1]+"/_gateway/ready"); got != 200 {
			t.Errorf("the admin API on %q answers %d", host, got)
		}
	}
}
