package server

import (
	"errors"
	"io"
	"strings"
	"testing"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// departing is a client that is gone when the endpoint has said all: what it sent
// before is still to be read.
type departing struct {
	io.Writer
	parted chan struct{}
	end    error // of what it sent
}

func (d *departing) source() io.Reader { return d }
func (d *departing) taking(func())     {}
func (d *departing) closeWrite() error { return errors.New("not connected") }
func (d *departing) part()             { close(d.parted) }
func (d *departing) kill(bool)         {}
func (d *departing) linger()           {}

func (d *departing) Read([]byte) (int, error) {
	<-d.parted
	return 0, d.end
}

// saidAll is an endpoint that has said all.
type saidAll struct{ idleTunnel }

func (saidAll) Read([]byte) (int, error) { return 0, io.EOF }

// TestClientGoneAtTheEnd: a tunnel that both sides have ended is no failure, though
// the client cannot be told of the endpoint's end.
func TestClientGoneAtTheEnd(t *testing.T) {
	l := newListener(&model.Listener{Name: "web", Address: "127.0.0.1:0"}, Options{})
	for _, test := range []struct {
		end  error
		word pipeline.Word
	}{{end: io.EOF}, {end: errors.New("reset"), word: pipeline.ClientClosed}} {
		p := &pair{ctx: t.Context(), listener: l, client: &departing{parted: make(chan struct{}), end: test.end}, tunnel: saidAll{}}
		err := p.join(strings.NewReader(""))
		if test.word == "" && err != nil || test.word != "" && (err == nil || pipeline.AsError(err).Word != test.word) {
			t.Errorf("after %v it ends with %v", test.end, err)
		}
	}
}
