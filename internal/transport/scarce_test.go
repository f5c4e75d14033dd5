package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"sluice/internal/pipeline"
)

// What this machine lacks is not the endpoint's fault.
func TestScarce(t *testing.T) {
	for _, test := range []struct {
		number syscall.Errno
		word   pipeline.Word
		fault  pipeline.Fault
	}{
		{syscall.EMFILE, pipeline.Overloaded, pipeline.Gateway},
		{syscall.ENFILE, pipeline.Overloaded, pipeline.Gateway},
		{syscall.EADDRNOTAVAIL, pipeline.Overloaded, pipeline.Gateway},
		{syscall.ECONNREFUSED, pipeline.UpstreamConnect, pipeline.Upstream},
	} {
		err := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", test.number)}
		var e *pipeline.Error
		if got := new(way).unconnected(context.Background(), nil, err, false); !errors.As(got, &e) || e.Word != test.word || e.Fault != test.fault || !e.Unsent {
			t.Errorf("%v: %v", test.number, got)
		}
	}
}
