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
		"X_Real_IP", "X_Forwarded-For", "Content_Length", "Transfer_Encoding", "X_REQUEST_ID", "If_None_Match", "Set_Cookie", "X-User", "x-user", "X_User",
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

// TestTrailersOfDroppedFields: what is dropped from a head, or set there, does not come
// behind the body under the same name.
func TestTrailersOfDroppedFields(t *testing.T) {
	for what, edit := range map[string]func(x *pipeline.Exchange){
		"dropped": func(x *pipeline.Exchange) { x.DropRequestField("x-user-id") },
		"set": func(x *pipeline.Exchange) {
			x.SetRequestField("X-User-Id", "ann")
			x.Request.Fields.Delete("X-User-Id")
		},
	} {
		x := &pipeline.Exchange{Request: &message.Request{}}
		for _, name := range []string{"X-User-Id", "X_User_Id", "x-user_id", "X-User-Ids", "X-Sum"} {
			x.Request.Fields.Add(name, "admin")
		}
		came := x.Request.Fields.Clone()
		x.Request.Trailer = func() message.Fields { return came }
		edit(x)
		for part, fields := range map[string]message.Fields{"head": x.Request.Fields, "trailer": x.Request.Trailer()} {
			if len(fields) != 2 || fields[0].Name != "X-User-Ids" || fields[1].Name != "X-Sum" {
				t.Errorf("%s: the %s has %v", what, part, fields)
			}
		}
	}

	x := &pipeline.Exchange{Request: &message.Request{}}
	x.Request.Fields.Add("x-user-id", "admin")
	x.Request.Fields.Add("X_User_Id", "admin")
	if x.SetRequestField("X-User-Id", "ann"); len(x.Request.Fields) != 1 || x.Request.Fields[0].Value != "ann" || x.Request.Trailer != nil {
		t.Errorf("set: %v", x.Request.Fields)
	}
}

// TestResponseTrailersOfDroppedFields: clients tell - and _ apart.
func TestResponseTrailersOfDroppedFields(t *testing.T) {
	for what, edit := range map[string]func(x *pipeline.Exchange){
		"dropped": func(x *pipeline.Exchange) { x.DropResponseField("X-Secret") },
		"set":     func(x *pipeline.Exchange) { x.SetResponseField("X-Secret", "none") },
	} {
		x := &pipeline.Exchange{Response: &message.Response{}}
		var came message.Fields
		came.Add("x-secret", "1")
		came.Add("X_Secret", "2")
		x.Response.Fields = came.Clone()
		x.Response.Trailer = func() message.Fields { return came }
		edit(x)
		if got := x.Response.Trailer(); len(got) != 1 || got[0].Name != "X_Secret" {
			t.Errorf("%s: the trailer has %v", what, got)
		}
		if value, there := x.Response.Fields.Find("X-Secret"); value == "1" || there != (what == "set") {
			t.Errorf("%s: the head has %v", what, x.Response.Fields)
		}
	}
}
