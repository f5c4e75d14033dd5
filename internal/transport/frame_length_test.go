package transport

import (
	"io"
	"testing"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// The end of a response that is longer than it said does not reach the client, who
// would take it for whole.
func TestResponsesThatAreTooLong(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := framed(t, nil, func(f *framer) {
			for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
				f.head(stream, false, ":status", "200", "content-length", "4")
				_ = f.WriteData(stream, false, []byte("ab"))
				_ = f.WriteData(stream, true, []byte("cdefg"))
			}
		})
		response, err := trip(t.Context(), h2c(t, endpoint, setup{}), get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		wantError(t, err, pipeline.UpstreamProtocol)
		if len(body) >= int(response.Length) || response.Length != 4 {
			t.Errorf("got %q of %d bytes", body, response.Length)
		}
	})
}

// What says something about framing that HTTP/2 has itself is dropped: fields of a
// connection (RFC 9113 8.2.2), lengths that differ or are none (RFC 9110 8.6).
func TestResponsesWhoseFramingIsNonsense(t *testing.T) {
	for name, fields := range map[string][]string{
		"two lengths":          {"content-length", "3", "content-length", "4"},
		"lengths in one field": {"content-length", "3, 4"},
		"fields of HTTP/1.1":   {"connection", "close", "transfer-encoding", "chunked", "keep-alive", "timeout=5", "upgrade", "h2c"},
	} {
		each(t, func(t *bed) {
			endpoint := framed(t, nil, func(f *framer) {
				for stream, _ := f.next(); stream != 0; stream, _ = f.next() {
					f.head(stream, false, append([]string{":status", "200"}, fields...)...)
					_ = f.WriteData(stream, true, []byte("abc"))
				}
			})
			response, body, err := read(t.Context(), h2c(t, endpoint, setup{}), get("/"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if response.Length != message.Unknown || len(response.Fields) > 0 || body != "abc" {
				t.Errorf("%s: %q of %d bytes with %q", name, body, response.Length, fieldText(response.Fields))
			}
		})
	}
}
