package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// manyRoutes is a document as large gateways have them.
func manyRoutes(count int) []byte {
	var out strings.Builder
	out.WriteString("listeners:\n  web: {address: \":0\"}\nupstreams:\n")
	for i := range count / 10 {
		fmt.Fprintf(&out, "  u%d: {endpoints: [\"http://10.0.%d.%d:8080\"]}\n", i, i/250, i%250)
	}
	out.WriteString("routes:\n")
	for i := range count {
		fmt.Fprintf(&out, "  - id: r%d\n    match:\n      hosts: [h%d.example.com]\n      path: /api/%d/{id}\n      methods: [GET, POST]\n    upstream: u%d\n    timeout: 10s\n", i, i%100, i, i%(count/10))
	}
	return []byte(out.String())
}

func BenchmarkLoadAndResolve(b *testing.B) {
	for _, count := range []int{100, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "sluice.yaml")
			if err := os.WriteFile(file, manyRoutes(count), 0o600); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				documents, _, problems := Load(file)
				result := Resolve(documents, nil, Environment{})
				if result.Gateway == nil || len(problems) > 0 || len(result.Gateway.Routes) != count {
					b.Fatal(problems, result.Problems)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := string(manyRoutes(10_000))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := nodes(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
