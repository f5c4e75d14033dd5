package pipeline_test

import (
	"io"
	"testing"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

func TestStreams(t *testing.T) {
	for kind, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream ; charset=utf-8": true, "application/grpc": true, "application/grpc+proto": true,
		"application/grpc-web": true, "application/grpc-web-text+proto": true,
		"": false, "text/plain": false, "text/event-streams": false, "application/grpc-webs": false, "application/json": false,
	} {
		response := &message.Response{Status: 200}
		response.Fields.Add("Content-Type", kind)
		if got := pipeline.Streams(response); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
	if !pipeline.Streams(&message.Response{Status: 101, Tunnel: tunnel{}}) {
		t.Error("a tunnel does not stream")
	}
}

type tunnel struct{ io.ReadWriteCloser }

func (tunnel) CloseWrite() error { return nil }
