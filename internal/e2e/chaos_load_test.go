package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// shot is a request of a steadyLoad that is over.
type shot struct {
	sent  time.Time
	took  time.Duration
	by    string // the endpoint that answered, by its name
	fault string // empty: it was answered with 200
}

// steadyLoad sends GETs at a steady rate, however long answers take, on
// connections that are kept.
type steadyLoad struct {
	t       *testing.T
	client  *http.Client
	request func(n int) *http.Request
	stop    func()
	running sync.WaitGroup

	mu    sync.Mutex
	shots []shot
}

// startLoad begins to send so many requests a second, until stop or the test's end.
func startLoad(t *testing.T, rate int, request func(n int) *http.Request) *steadyLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &steadyLoad{
		t: t, request: request,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}, Timeout: gatewaytest.Patience},
	}
	ended := make(chan struct{})
	l.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		l.running.Wait()
		l.client.CloseIdleConnections()
	})
	t.Cleanup(l.stop)
	began := time.Now()
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate)))):
			}
			l.running.Go(func() { l.shoot(n) })
		}
	}()
	return l
}

// gets are GETs of one URL.
func gets(t *testing.T, url string) func(int) *http.Request {
	t.Helper()
	return func(int) *http.Request {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		if err != nil {
			panic(err)
		}
		return r
	}
}

func (l *steadyLoad) shoot(n int) {
	s := shot{sent: time.Now()}
	s.by, s.fault = l.outcome(l.request(n))
	s.took = time.Since(s.sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shots = append(l.shots, s)
}

func (l *steadyLoad) outcome(r *http.Request) (by, fault string) {
	response, err := l.client.Do(r)
	if err != nil {
		return "", err.Error()
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	by = response.Header.Get("X-Endpoint")
	if err != nil {
		return by, fmt.Sprintf("status %d, then %v", response.StatusCode, err)
	}
	if response.StatusCode != http.StatusOK {
		var p problem
		_ = json.Unmarshal(body, &p) // an endpoint's own answer has none
		return by, fmt.Sprintf("status %d %s (request %s)", response.StatusCode, p.Error, response.Header.Get("X-Request-Id"))
	}
	return by, ""
}

// between are the requests that were sent from one time on, up to another.
func (l *steadyLoad) between(from, to time.Time) (some []shot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.shots {
		if !s.sent.Before(from) && s.sent.Before(to) {
			some = append(some, s)
		}
	}
	return some
}

// later is after every request.
func later() time.Time { return time.Now().Add(time.Hour) }

// after waits until so many requests that were sent from a time on are over, and
// returns those.
func (l *steadyLoad) after(from time.Time, n int) (some []shot) {
	l.t.Helper()
	gatewaytest.WaitFor(l.t, fmt.Sprintf("%d requests are answered", n), func() bool {
		some = l.between(from, later())
		return len(some) >= n
	})
	return some
}

// none fails the test where one of all requests failed. It ends the load.
func (l *steadyLoad) none() {
	l.t.Helper()
	l.stop()
	all := l.between(time.Time{}, later())
	if len(all) == 0 {
		l.t.Error("nothing was asked")
	}
	told := 0
	for _, s := range all {
		if s.fault != "" {
			if told++; told <= 10 {
				l.t.Errorf("after %v: %s", s.took, s.fault)
			}
		}
	}
	if told > 0 {
		l.t.Errorf("%d of %d requests failed", told, len(all))
	}
}

// shares counts by which endpoints requests were answered.
func shares(some []shot) map[string]int {
	by := map[string]int{}
	for _, s := range some {
		by[s.by]++
	}
	return by
}
