package pipeline

import (
	"encoding/json"
	"strings"

	"sluice/internal/message"
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
// 9457). A response that a handler left behind is closed.
func Fail(x *Exchange, err error) {
	if x.Response != nil {
		_ = x.Response.Close() // the error at hand is the one to tell
	}
	e := AsError(err)
	x.Err = e
	x.Identify()
	body, marshalErr := json.Marshal(problemDocument{"about:blank", message.Reason(e.Status), e.Status, e.Detail, e.Word, x.ID})
	if marshalErr != nil {
		panic("BUG: a problem document has no JSON: " + marshalErr.Error())
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
	if e.Close {
		response.Fields.Put(message.Connection, "close")
	}
	response.Fields.Put(message.XRequestID, x.ID)
	x.Response = response
}

// Streams tells whether a response goes on for as long as either side likes: a
// tunnel, an event stream, gRPC. Such a one may be silent for longer.
func Streams(response *message.Response) bool {
	if response.Tunnel != nil {
		return true
	}
	kind, _, _ := strings.Cut(response.Fields.Get(message.ContentType), ";")
	kind = strings.ToLower(strings.TrimRight(kind, " \t"))
	return kind == "text/event-stream" || kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}
