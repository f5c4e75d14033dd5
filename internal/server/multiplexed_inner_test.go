package server

import (
	"testing"
	"time"

	"sluice/internal/model"
)

// TestWithoutBoundOverHTTP2 keeps what is without bound so: package h2 has
// defaults where the settings of a listener have none.
func TestWithoutBoundOverHTTP2(t *testing.T) {
	o := h2Options(&model.Listener{Limits: model.ListenerLimits{HeaderBytes: 64 << 10}})
	if o.IdleTimeout >= 0 || o.ReadHeaderTimeout >= 0 || o.MaxFields < o.MaxHeaderBytes {
		t.Errorf("%+v", o)
	}
	o = h2Options(&model.Listener{Timeouts: model.ListenerTimeouts{Idle: time.Second, ReadHeader: time.Minute}, Limits: model.ListenerLimits{HeaderBytes: 1, Headers: 2}})
	if o.IdleTimeout != time.Second || o.ReadHeaderTimeout != time.Minute || o.MaxHeaderBytes != 1 || o.MaxFields != 2 {
		t.Errorf("%+v", o)
	}
}
