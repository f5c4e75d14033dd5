package pipeline_test

import (
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

func TestTrailers(t *testing.T) {
	var head, came message.Fields
	head.Add("X-User", "set by middleware")
	refused := []string{
		"X-Forwarded-For", "X-Forwarded-Proto", "x-forwarded-anything", "X-Real-IP", "Forwarded", "Via", "X-Request-ID", "X-Backend-Version", "X-Response-Time",
		"Cookie", "Set-Cookie", "Authorization", "Proxy-Authorization", "WWW-Authenticate", "Host", "Transfer-Encoding", "content-length", "Trailer", "Connection",
		"Keep-Alive", "Proxy-Connection", "Upgrade", "TE", "Expect", "Max-Forwards", "Range", "If-Match", "if-anything", "Cache-Control", "Pragma",
		"Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning", "Content-Encoding", "Content-Type", "Content-Range", "Content-Language", "Content-Location",
		"X_Real_IP", "X_Forwarded-For", "Content_Length", "Transfer_Encoding", "X_REQUEST_ID", "If_None_Match", "Set_Cookie", "X-User", "x-user",
	}
	for _, name := range refused {
		came.Add(name, "1")
	}
	passing := []string{"Grpc-Status", "Grpc-Message", "Server-Timing", "Digest", "X-Sum", "ETag", "Authentication-Info", "X-Forwarded"}
	for _, name := range passing {
		came.Add(name, "2")
	}
	names := func(fields message.Fields) string {
		var all []string
		for _, field := range fields {
			all = append(all, field.Name)
		}
		return strings.Join(all, " ")
	}
	if got, want := names(pipeline.Trailers(func() message.Fields { return came }, head)()), strings.Join(passing, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if pipeline.Trailers(nil, nil) != nil {
		t.Error("none became some")
	}

	for came, want := range map[string]string{
		"X-Sum, X-Request-ID, Grpc-Status": "X-Sum, Grpc-Status", "X-Sum,Digest": "X-Sum, Digest", "Cookie": "", "": "",
	} {
		var fields message.Fields
		fields.Add("trailer", came)
		pipeline.AnnounceTrailers(&fields)
		if got := fields.Get(message.Trailer); got != want || want == "" && len(fields) > 0 {
			t.Errorf("%q is announced as %q", came, got)
		}
	}
}
