package wire

import (
	"testing"

	"sluice/internal/message"
)

const (
	browser = "GET /products/42/reviews?page=2&sort=newest HTTP/1.1\r\n" +
		"Host: shop.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
		"Accept-Language: en-US,en;q=0.5\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Referer: https://shop.example.com/products/42\r\n" +
		"Connection: keep-alive\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n" +
		"Upgrade-Insecure-Requests: 1\r\n" +
		"Sec-Fetch-Mode: navigate\r\n" +
		"\r\n"
	small = "GET /v1/users/42 HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer 0123456789abcdef\r\nAccept: application/json\r\n\r\n"

	answer = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/json\r\nContent-Length: 256\r\nETag: \"abc\"\r\n\r\n"
)

func BenchmarkRequestHead(b *testing.B) {
	for _, c := range []struct{ name, raw string }{{"browser", browser}, {"small", small}} {
		b.Run(c.name, func(b *testing.B) {
			data := []byte(c.raw)
			var array [32]message.Field
			r := new(message.Request)
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				r.Fields = array[:0]
				if n, _, err := RequestHead(r, data, new(Scan), Limits{HeaderBytes: 64 << 10, Headers: 100, URIBytes: 16 << 10}); n == 0 || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkResponseHead(b *testing.B) {
	data := []byte(answer)
	var array [32]message.Field
	r := new(message.Response)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r.Fields = array[:0]
		if n, _, err := ResponseHead(r, data, new(Scan), "GET", Limits{HeaderBytes: 64 << 10}); n == 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkAppendRequestHead(b *testing.B) {
	r := new(message.Request)
	_, f, err := RequestHead(r, []byte(browser), new(Scan), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendRequestHead(buffer, r, f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendResponseHead(b *testing.B) {
	r := new(message.Response)
	_, f, err := ResponseHead(r, []byte(answer), new(Scan), "GET", Limits{})
	if err != nil {
		b.Fatal(err)
	}
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := AppendResponseHead(buffer, r, f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChunked(b *testing.B) {
	payload := make([]byte, 32<<10)
	data := AppendChunk(nil, payload)
	data, err := AppendLastChunk(data, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c := NewChunked(Limits{}, 0)
		for rest := data; !c.Done(); {
			n, _, err := c.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
}
