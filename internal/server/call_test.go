package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/model"
)

// A call may be silent for as long as its route lets it: no rate counts.
func TestCallsHaveNoPace(t *testing.T) {
	m := &model.Listener{Name: "web", Address: "127.0.0.1:0", Timeouts: model.ListenerTimeouts{MinBodyRate: 240}}
	l := newListener(m, Options{})
	for contentType, rate := range map[string]int64{"application/grpc": 0, "application/grpc+proto": 0, "application/grpc-web": 240, "application/json": 240, "": 240} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/p.S/M", strings.NewReader("body"))
		r.Header.Set("Content-Type", contentType)
		b := newBody(&turn{adapter: &adapter{listener: l}, w: w, r: r, rc: http.NewResponseController(w)}, m)
		if b.pace.rate != rate {
			t.Errorf("%q: %d bytes a second", contentType, b.pace.rate)
		}
	}
}
