package app

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/provider"
)

// largeDocument has n routes over fifty hosts, and a last one that revision
// tells apart.
func largeDocument(n, revision int) config.Document {
	var text strings.Builder
	text.WriteString("listeners: {web: {address: '127.0.0.1:0'}}\nadmin: {address: '127.0.0.1:0'}\naccess_log: {output: none}\nupstreams: {app: {endpoints: ['http://127.0.0.1:1']}}\nroutes:\n")
	for i := range n - 1 {
		fmt.Fprintf(&text, "  - {id: r%d, match: {hosts: [h%d.test], path: '/s%d/{id}/items/{item}', methods: [GET]}, upstream: app}\n", i, i%50, i)
	}
	fmt.Fprintf(&text, "  - {match: {path: /revision}, respond: {status: 200, body: '%d'}}\n", revision)
	return config.Document{Name: "large.yaml", Data: []byte(text.String())}
}

// BenchmarkReload is a whole reload, from the documents' text until the new
// snapshot serves and the old one is released.
func BenchmarkReload(b *testing.B) {
	for _, routes := range []int{100, 10_000} {
		b.Run(fmt.Sprint(routes), func(b *testing.B) {
			g := New(Options{Source: still{}, Log: slog.New(slog.DiscardHandler), Stdout: io.Discard, Stderr: io.Discard})
			revision := 0
			reload := func(document config.Document) {
				if problems, _ := g.apply(&change{update: provider.Update{Documents: []config.Document{document}}}); model.Refused(problems) {
					b.Fatal(problems)
				}
			}
			reload(largeDocument(routes, revision))
			for b.Loop() {
				b.StopTimer()
				revision++
				document := largeDocument(routes, revision)
				b.StartTimer()
				reload(document)
			}
			b.StopTimer()
			if err := g.drain(b.Context()); err != nil {
				b.Error(err)
			}
		})
	}
}

// still is a source that nobody runs.
type still struct{ Source }

func (still) Watch([]string) {}
