package pipeline

import (
	"encoding/json"
	"strings"

	"sluice/internal/message"
	"sluice/internal/rpc"
)

// problemDocument is RFC 9457 3, with the two members of Sluice's own.
type problemDocument struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Error     Word   `json:"error"`
	RequestID string `json:"request_id"`
}

// Fail turns an error into the exchange's response: a problem document (RFC
// 9457), or, for a call, the status that gRPC has. A response that a handler left
// behind is closed.
func Fail(x *Exchange, err error) {
	if x.Response != nil {
		_ = x.Response.Close() // the error at hand is the one to tell
	}
	e := AsError(err)
	x.Err = e
	x.Identify()
	if form, suffix := answerForm(x.Request); form != rpc.None {
		x.Status = e.Status
		x.Response = e.outcome(form, suffix)
	} else {
		x.Status = 0
		x.Response = e.document(x.ID)
	}
	if e.Close {
		x.Response.Fields.Put(message.Connection, "close")
	}
	x.Response.Fields.Put(message.XRequestID, x.ID)
}

// document is the error as a problem document.
func (e *Error) document(id string) *message.Response {
	body, err := json.Marshal(problemDocument{"about:blank", message.Reason(e.Status), e.Status, e.Detail, e.Word, id})
	if err != nil {
		panic("BUG: a problem document has no JSON: " + err.Error())
	}
	response := &message.Response{
		Status: e.Status,
		Fields: message.Fields{{Name: "Content-Type", Value: "application/problem+json", ID: message.ContentType}},
		Body:   message.Text(string(body)),
		Length: int64(len(body)),
	}
	for _, field := range e.Fields { // they replace the document's own, and may repeat
		response.Fields.Delete(field.Name)
	}
	response.Fields = append(response.Fields, e.Fields...)
	return response
}

// Streams tells whether a response goes on for as long as either side likes: a
// tunnel, an event stream, gRPC. Such a one may be silent for longer.
func Streams(response *message.Response) bool {
	if response.Tunnel != nil {
		return true
	}
	contentType := response.Fields.Get(message.ContentType)
	if form, _ := rpc.FormOf(contentType); form != rpc.None {
		return true
	}
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimRight(kind, " \t"), "text/event-stream")
}
