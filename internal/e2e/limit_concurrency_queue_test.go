package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/gatewaytest"
	"sluice/internal/pipeline"
)

// queued is a gateway with a concurrency limit before an endpoint, whose answers wait.
type queued struct {
	*polyglot
	arrived chan string   // what the endpoint was asked for
	answers chan struct{} // one for each answer; closed: no answer waits
	reached atomic.Int64
}

// startQueued runs one with a limit on every path, with these options.
func startQueued(t *testing.T, limit string) *queued {
	t.Helper()
	cert, key := selfSigned(t, polyglotHost)
	text, err := os.ReadFile(cert)
	q := &queued{polyglot: &polyglot{roots: x509.NewCertPool()}, arrived: make(chan string, 1000), answers: make(chan struct{})}
	if err != nil || !q.roots.AppendCertsFromPEM(text) {
		t.Fatalf("the certificate is none: %v", err)
	}
	secure := ""
	if gatewaytest.Engine() != gatewaytest.Standard {
		secure = fmt.Sprintf(`websecure: {address: "127.0.0.1:0", protocols: [h1, h2, h3], tls: {certificates: [{cert: %q, key: %q}]}}`, cert, key)
	}
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		q.reached.Add(1)
		q.arrived <- r.URL.Path
		select {
		case <-q.answers:
		case <-r.Context().Done():
		}
	}))
	q.Gateway = gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  %s
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
routes: [{id: queued, match: {path_prefix: /}, upstream: %q, middleware: [{concurrency_limit: %s}]}]
`, secure, url, limit))
	return q
}

// stands waits until so many exchanges run and wait at the limit.
func (q *queued) stands(t *testing.T, running, waiting int) {
	t.Helper()
	gatewaytest.WaitFor(t, fmt.Sprintf("%d run and %d wait", running, waiting), func() bool {
		var limits []pipeline.LimitStatus
		q.Admin("/_gateway/limits", &limits)
		return len(limits) == 1 && limits[0].Running == running && limits[0].Waiting == waiting
	})
}

// guest is a client with a request for a path.
type guest struct {
	leave  context.CancelFunc
	status chan int // 0: no answer came
}

func (q *queued) guest(t *testing.T, d *dialect, client transport, path string) *guest {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.scheme+"://"+q.Addr(d.listener).String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &guest{leave: leave, status: make(chan int, 1)}
	go func() {
		defer leave()
		response, err := client.RoundTrip(r)
		if err != nil {
			v.status <- 0
			return
		}
		_, _ = io.Copy(io.Discard, response.Body) // the status is what counts
		response.Body.Close()
		v.status <- response.StatusCode
	}()
	return v
}

// TestLimitQueueLeft: a client that leaves while it waits frees its place in the queue for
// others, and never reaches the endpoint.
func TestLimitQueueLeft(t *testing.T) {
	q := startQueued(t, "{max: 1, queue: 3, queue_timeout: 10m}")
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			client := d.pool(t, q.polyglot)
			defer hangUp(client)
			guests := map[string]*guest{}
			come := func(path string, running, waiting int) {
				t.Helper()
				guests[path] = q.guest(t, &d, client, path)
				q.stands(t, running, waiting)
			}
			come("/first", 1, 0)
			come("/second", 1, 1)
			come("/leaves", 1, 2)
			come("/third", 1, 3)
			come("/full", 1, 3)
			if status := await(t, "the one too many", guests["/full"].status); status != http.StatusServiceUnavailable {
				t.Errorf("status %d where the queue is full", status)
			}
			guests["/leaves"].leave()
			q.stands(t, 1, 2)
			if status := await(t, "the one who left", guests["/leaves"].status); status != 0 {
				t.Errorf("status %d for one who left", status)
			}
			come("/fourth", 1, 3)
			for _, path := range []string{"/first", "/second", "/third", "/fourth"} {
				if at := await(t, "the endpoint's next request", q.arrived); at != path {
					t.Errorf("%s reached the endpoint before %s", at, path)
				}
				q.answers <- struct{}{}
				if status := await(t, path, guests[path].status); status != http.StatusOK {
					t.Errorf("status %d for %s", status, path)
				}
			}
			q.stands(t, 0, 0)
		})
	}
}

// TestLimitQueueLeftInTurn: clients leave as their turns come. No place is lost with them.
func TestLimitQueueLeftInTurn(t *testing.T) {
	const clients, places = 200, 2
	q := startQueued(t, fmt.Sprintf("{max: %d, queue: %d, queue_timeout: 10m}", places, clients))
	for _, d := range dialects() {
		t.Run(d.name, func(t *testing.T) {
			client := d.pool(t, q.polyglot)
			defer hangUp(client)
			before := q.reached.Load()
			guests := make([]*guest, clients)
			for i := range guests {
				guests[i] = q.guest(t, &d, client, "/")
			}
			q.stands(t, places, clients-places)
			// One answer is one turn, and half of the others leave meanwhile.
			var leaving sync.WaitGroup
			for i := range clients / 2 {
				leaving.Go(guests[2*i].leave)
				select {
				case q.answers <- struct{}{}:
				case v := <-guests[2*i].status:
					guests[2*i].status <- v
				}
			}
			leaving.Wait()
			ended := make(chan struct{})
			go func() { // those that have stayed
				for {
					select {
					case q.answers <- struct{}{}:
					case <-ended:
						return
					}
				}
			}()
			for i, v := range guests {
				status := await(t, "every client", v.status)
				if i%2 == 1 && status != http.StatusOK {
					t.Errorf("status %d for client %d, which has stayed", status, i)
				}
			}
			close(ended)
			q.stands(t, 0, 0)
			for len(q.arrived) > 0 {
				<-q.arrived
			}
			t.Logf("%d of %d clients have reached the endpoint", q.reached.Load()-before, clients)
		})
	}
}

// TestLimitQueueLeftWithABody frees the places of clients that leave before anybody has read
// their bodies, whatever of these has come.
func TestLimitQueueLeftWithABody(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http looks only once the body is read")
	}
	q := startQueued(t, "{max: 1, queue: 1, queue_timeout: 10m}")
	client := &http.Transport{}
	defer hangUp(client)
	first := q.guest(t, &dialects()[0], client, "/first")
	q.stands(t, 1, 0)
	for name, body := range map[string]string{
		"none":          "Content-Length: 6\r\n\r\n",
		"part":          "Content-Length: 6\r\n\r\n123",
		"whole":         "Content-Length: 6\r\n\r\n123456",
		"chunks, part":  "Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n",
		"chunks, whole": "Transfer-Encoding: chunked\r\n\r\n3\r\n123\r\n0\r\n\r\n",
	} {
		for _, reset := range []bool{false, true} {
			conn, err := net.Dial("tcp", q.Addr("web").String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, "POST /leaves HTTP/1.1\r\nHost: a\r\n"+body); err != nil {
				t.Error(err)
			}
			q.stands(t, 1, 1)
			if tcp, ok := conn.(*net.TCPConn); ok && reset {
				_ = tcp.SetLinger(0) // on an open connection
			}
			conn.Close()
			t.Logf("%s leaves, by a reset: %v", name, reset)
			q.stands(t, 1, 0)
		}
	}
	q.answers <- struct{}{}
	if status := await(t, "the first", first.status); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if n := q.reached.Load(); n != 1 {
		t.Errorf("%d requests reached the endpoint", n)
	}
}
