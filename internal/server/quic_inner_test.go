package server

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A client of HTTP/3 that leaves is known by the error of its stream, before the
// context of its request ends; what breaks the protocol is malformed.
func TestClientsOfHTTP3ThatLeave(t *testing.T) {
	for _, test := range []struct {
		err  error
		word pipeline.Word
	}{
		{&http3.Error{Remote: true, ErrorCode: http3.ErrCodeRequestCanceled}, pipeline.ClientClosed},
		{fmt.Errorf("wrapped: %w", &http3.Error{Remote: true, ErrorCode: http3.ErrCodeNoError}), pipeline.ClientClosed},
		{&quic.IdleTimeoutError{}, pipeline.ClientClosed},
		{&quic.TransportError{ErrorCode: quic.ConnectionRefused}, pipeline.ClientClosed},
		{&quic.StatelessResetError{}, pipeline.ClientClosed},
		{&http3.Error{ErrorCode: http3.ErrCodeFrameUnexpected}, pipeline.BadRequest},
	} {
		b := &body{inner: failing{test.err}, length: message.Unknown, gone: func() bool { return false }}
		b.over.L = &b.mu
		if _, err := io.ReadAll(b); pipeline.AsError(err).Word != test.word {
			t.Errorf("%v is %v, want %s", test.err, err, test.word)
		}
	}
}

// What clients may remember for a day they are told to forget for a day.
func TestAlternativeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListener(&model.Listener{Name: "web", Address: "127.0.0.1:0"}, Options{})
		told := func(want string) {
			t.Helper()
			if got := l.altSvc(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		told("")
		l.alternative.Store(l.alternative.Load().gone(false))
		told("")
		l.alternative.Store(&alternative{value: "h3"})
		told("h3")
		l.alternative.Store(l.alternative.Load().gone(false))
		time.Sleep(alternativeAge / 2)
		l.alternative.Store(l.alternative.Load().gone(false)) // another reload
		told("clear")
		time.Sleep(alternativeAge/2 + 1)
		told("")
		l.alternative.Store((&alternative{value: "h3"}).gone(true))
		told("")
	})
}
