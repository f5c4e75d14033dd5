package transport

import (
	"io"
	"net/http"
	"testing"

	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// BenchmarkRoundTrip sends small requests over one connection to an endpoint in
// this process.
func BenchmarkRoundTrip(b *testing.B) {
	goroutines := startGoroutines(b)
	loops := startLoops(b)
	for name, own := range map[string]netloop.Executor{"standard": nil, "goroutine": goroutines, "loop": loops[0]} {
		b.Run(name, func(b *testing.B) {
			endpoint := scripted(b, trivial)
			if own == nil {
				benchmark(b, nil, openStandard(b, endpoint, setup{}))
				return
			}
			p := newPool(wayOf(endpoint, setup{}), NewEngine(append(loops, goroutines), goroutines))
			b.Cleanup(p.Release)
			benchmark(b, own, p)
		})
	}
}

func benchmark(b *testing.B, own netloop.Executor, transport pipeline.Transport) {
	b.Helper()
	var ctx netloop.Context
	ctx.Init(own)
	request, s := get("/"), new(small)
	request.Fields.Add("Accept", "*/*")
	run := func() {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.ask(transport, &ctx, request); err != nil {
				b.Error(err)
				return
			}
		}
	}
	if own == nil {
		run()
		return
	}
	do(own, run)
}

// BenchmarkProtocols sends small requests to net/http's server in this process,
// over each protocol, one after another.
func BenchmarkProtocols(b *testing.B) {
	goroutines, loops := startGoroutines(b), startLoops(b)
	engine := NewEngine(append(loops, goroutines), goroutines)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	clear2 := served(b, nil, handler)
	secure, trust := secured(b, handler)
	for _, c := range []struct {
		protocol string
		endpoint model.Endpoint
	}{{model.UpstreamHTTP1, clear2}, {model.UpstreamH2C, clear2}, {model.UpstreamHTTP1, secure}, {model.UpstreamH2, secure}} {
		for name, own := range map[string]netloop.Executor{"foreign": nil, "goroutine": goroutines, "loop": loops[0]} {
			b.Run(c.endpoint.Scheme+"/"+c.protocol+"/"+name, func(b *testing.B) {
				upstream := &model.Upstream{Protocol: c.protocol, TLS: trust}
				benchmark(b, own, acquire(b, engine, upstream, c.endpoint, Observer{}))
			})
		}
	}
}
