package transport

import (
	"testing"

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
