package pipeline_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestAdmitDropsWhatConnectionNames(t *testing.T) {
	for connection, want := range map[string]string{
		"":                               "X-A: 1|X-B: 2|TE: trailers|Upgrade: websocket",
		"close":                          "Connection: close|X-A: 1|X-B: 2|TE: trailers|Upgrade: websocket",
		"x-a":                            "X-B: 2|TE: trailers|Upgrade: websocket",
		"keep-alive, X-A,, X-B, Upgrade": "Connection: keep-alive, Upgrade|TE: trailers|Upgrade: websocket",
		"TE, HTTP2-Settings":             "Connection: TE, HTTP2-Settings|X-A: 1|X-B: 2|TE: trailers|Upgrade: websocket",
		"X-Request-ID":                   "X-A: 1|X-B: 2|TE: trailers|Upgrade: websocket",
	} {
		request := &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "/", Host: "a", Path: "/"}
		if connection != "" {
			request.Fields.Add("Connection", connection)
		}
		for _, line := range []string{"X-A: 1", "X-B: 2", "TE: trailers", "Upgrade: websocket"} {
			name, value, _ := strings.Cut(line, ": ")
			request.Fields.Add(name, value)
		}
		x := pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.MustParseAddrPort("192.0.2.1:1"), time.Time{})
		if err := pipeline.Admit(x, nil); err != nil {
			t.Fatal(err)
		}
		if id := request.Fields.Get(message.XRequestID); id == "" || id != x.ID {
			t.Errorf("%q: request id %q, the exchange's is %q", connection, id, x.ID)
		}
		request.Fields.Delete("X-Request-ID")
		var got []string
		for _, field := range request.Fields {
			got = append(got, field.Name+": "+field.Value)
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("%q: got %s, want %s", connection, text, want)
		}
	}
}
