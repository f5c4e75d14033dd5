package app_test

import (
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/certtest"
	"sluice/internal/gatewaytest"
	"sluice/internal/logtest"
)

// TestHTTP3OnATakenPort refuses a reload that brings h3 to a listener that serves,
// while another program has its port in UDP, and takes it once that is free.
func TestHTTP3OnATakenPort(t *testing.T) {
	cert, key := certtest.SelfSigned(t, "a.test").Write(t.TempDir(), "own")
	secure := func(protocols, path string) string {
		web := fmt.Sprintf("web: {address: \"127.0.0.1:0\", protocols: %s, tls: {certificates: [{cert: %q, key: %q}]}}", protocols, cert, key)
		return strings.Replace(routes(path), "web: {address: \"127.0.0.1:0\"}", web, 1)
	}
	debug := &logtest.Buffer{}
	r := run(t, func(o *app.Options) {
		o.Log = slog.New(slog.NewTextHandler(debug, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.RetryEvery = time.Millisecond
	})
	r.say(secure("[h1, h2]", "/a"))
	<-r.Serving()
	first := r.Current()
	holder, err := net.ListenPacket("udp", r.Addr("web").String())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	r.say(secure("[h1, h2, h3]", "/b"))
	gatewaytest.WaitFor(t, "it is tried several times", func() bool { return strings.Count(debug.String(), `msg="configuration refused again"`) >= 3 })
	if r.Current() != first {
		t.Error("it serves")
	}
	if p := r.Problems()[0]; !strings.HasPrefix(p.Error(), "it.yaml:1:28: cannot listen on 127.0.0.1:0 by UDP, for h3: address already in use") {
		t.Errorf("got %v", p)
	}
	holder.Close()
	gatewaytest.WaitFor(t, "it serves", func() bool { return r.revision() == 2 && len(r.Problems()) == 0 })
	taken, err := net.ListenPacket("udp", r.Addr("web").String())
	if err == nil {
		taken.Close()
		t.Error("nobody has the port")
	}
	r.say(secure("[h1, h2]", "/c"))
	gatewaytest.WaitFor(t, "the port is free again", func() bool {
		if r.revision() != 3 {
			return false
		}
		free, err := net.ListenPacket("udp", r.Addr("web").String())
		if err == nil {
			free.Close()
		}
		return err == nil
	})
}
