package app_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/gatewaytest"
	"sluice/internal/provider"
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
	response, err := (&http.Client{Transport: transport, Timeout: gatewaytest.Patience}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
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
