package pipeline

import (
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/rpc"
)

// CallOf tells as what a request is a gRPC call, if it is one.
func CallOf(r *message.Request) rpc.Form {
	if r == nil || r.Method != "POST" {
		return rpc.None
	}
	form, _ := rpc.FormOf(r.Fields.Get(message.ContentType))
	return form
}

// speaksGRPC tells whether a request is a call whose answer may be gRPC's own: it
// has trailers, which is why there is none over HTTP/1.1.
func speaksGRPC(r *message.Request) bool {
	return CallOf(r) == rpc.Plain && (r.Protocol == message.HTTP2 || r.Protocol == message.HTTP3)
}

// WebAnswer is the form, with its suffix, in which the client of a call of the web
// forms wants the answer: as Accept has it, else as it asked.
func WebAnswer(r *message.Request) (form rpc.Form, suffix string) {
	for value := range r.Fields.Values("Accept") {
		for member := range strings.SplitSeq(value, ",") {
			if form, suffix = rpc.FormOf(member); form.IsWeb() {
				return form, suffix
			}
		}
	}
	return rpc.FormOf(r.Fields.Get(message.ContentType))
}

// answerForm is the form in which a request is told of an error; None: as a
// problem document.
func answerForm(r *message.Request) (form rpc.Form, suffix string) {
	switch {
	case speaksGRPC(r):
		return rpc.FormOf(r.Fields.Get(message.ContentType))
	case CallOf(r).IsWeb():
		return WebAnswer(r)
	}
	return rpc.None, ""
}

// outcome is the error as the answer to a call: without a message, and with its
// status in the head, or, for the web forms, in the one frame of the body.
func (e *Error) outcome(form rpc.Form, suffix string) *message.Response {
	r := &message.Response{Status: 200, Fields: e.Fields.Clone()}
	r.Fields.Put(message.ContentType, form.ContentType(suffix))
	ending := e.ending()
	if form == rpc.Plain {
		for _, field := range ending {
			r.Fields.Set(field.Name, field.Value)
		}
		return r
	}
	frame := string(FrameTrailer(ending))
	if form == rpc.WebText {
		frame = base64.StdEncoding.EncodeToString([]byte(frame))
	}
	r.Body, r.Length = message.Text(frame), int64(len(frame))
	return r
}

// FrameTrailer is the last frame of an answer of the web forms.
func FrameTrailer(trailer message.Fields) []byte {
	var frame rpc.TrailerFrame
	for i := range trailer {
		frame.Add(trailer[i].Name, trailer[i].Value)
	}
	return frame.Bytes()
}

// ending are the fields that tell a call how it ended: by the error.
func (e *Error) ending() message.Fields {
	code := e.Code
	if code == rpc.OK {
		code = rpc.Unknown // an error is no success, whoever made it
	}
	fields := Ending(code, string(e.Word)+": "+e.Detail)
	if seconds, err := strconv.ParseUint(e.Fields.Get(message.RetryAfter), 10, 31); err == nil {
		fields.Add(rpc.RetryPushbackField, strconv.FormatUint(1000*seconds, 10))
	}
	return fields
}

// Ending are the fields that tell a call how it ended.
func Ending(code rpc.Code, text string) message.Fields {
	return message.Fields{{Name: rpc.StatusField, Value: code.Field(), ID: message.Other}, {Name: rpc.MessageField, Value: rpc.EscapeMessage(text), ID: message.Other}}
}

// callTimeout is how long a call may take, as its client says, if it does so in
// the one way that there is. What anything else means is the endpoint's to say.
func callTimeout(fields message.Fields) (timeout time.Duration, ok bool) {
	for i := range fields {
		if fields[i].ID != message.GRPCTimeout {
			continue
		}
		if ok { // twice
			return 0, false
		}
		if timeout, ok = rpc.ParseTimeout(fields[i].Value); !ok {
			return 0, false
		}
	}
	return timeout, ok
}

// callDeadline is when a call must be over, as its client says; zero: never.
func callDeadline(x *Exchange) time.Time {
	if CallOf(x.Request) == rpc.None {
		return time.Time{}
	}
	timeout, ok := callTimeout(x.Request.Fields)
	if !ok {
		return time.Time{}
	}
	return x.Start.Add(timeout)
}

// KeepDeadline lowers the time that the fields of a call give its endpoint to
// what is left of it. What the gateway took itself counts from a thousandth of a
// second on.
func KeepDeadline(fields *message.Fields, until time.Time) {
	timeout, ok := callTimeout(*fields)
	if !ok || until.IsZero() {
		return
	}
	if left := time.Until(until); timeout-left >= time.Millisecond {
		fields.Put(message.GRPCTimeout, rpc.FormatTimeout(left))
	}
}

// EndCall makes a failure of a response's body a status in its trailer, where the
// response is one of gRPC. It can be told where no message is under way; else, the
// body fails. told says that the client has trailers whatever its protocol.
func EndCall(x *Exchange, told bool) {
	r := x.Response
	if r == nil || r.Body == nil || r.Length == 0 || !told && !speaksGRPC(x.Request) {
		return
	}
	if form, _ := rpc.FormOf(r.Fields.Get(message.ContentType)); form != rpc.Plain {
		return
	}
	body := &callBody{ReadCloser: r.Body, x: x, trailer: r.Trailer}
	r.Body, r.Trailer, r.Length = body, body.fields, message.Unknown
}

// callBody is the body of a response to a call.
type callBody struct {
	io.ReadCloser
	x        *Exchange
	position rpc.Position
	trailer  func() message.Fields // may be nil
	ending   message.Fields        // instead, once the body has failed
}

// Read reads; it is at the end where an error is told by the trailer.
func (b *callBody) Read(p []byte) (int, error) {
	if b.ending != nil {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	b.position.Pass(p[:n])
	if err == nil || err == io.EOF { // not what wraps it, as failures may
		return n, err
	}
	e := AsError(err)
	if e.Word == ClientClosed || !b.position.Between() {
		return n, err
	}
	if b.x.Err == nil {
		b.x.Err = e
	}
	b.ending = e.ending()
	b.x.Until = time.Time{} // it may be told after the exchange's own time, which it may be the end of
	return n, io.EOF
}

// Buffered is how much of it is there.
func (b *callBody) Buffered() int {
	if b.ending != nil {
		return 0
	}
	return message.Buffered(b.ReadCloser)
}

func (b *callBody) fields() message.Fields {
	switch {
	case b.ending != nil:
		return b.ending
	case b.trailer != nil:
		return b.trailer()
	}
	return nil
}
