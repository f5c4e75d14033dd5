package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// probeBody is how much of an answer to a check is looked at.
const probeBody = 64 << 10

// probe is what a check of an endpoint does.
func (b *builder) probe(set *lease.Set, e *Endpoint) probe {
	m, endpoint := b.m.Health, e.Endpoint
	if m.Type == "tcp" {
		return func(ctx context.Context) error { return dial(ctx, endpoint.Address) }
	}
	transport := b.connect.Probe(set, b.m, endpoint)
	if m.Type == "grpc" {
		return func(ctx context.Context) error { return askCall(ctx, transport, m, endpoint) }
	}
	return func(ctx context.Context) error { return askHTTP(ctx, transport, m, endpoint) }
}

// dial tells whether a connection can be made.
func dial(ctx context.Context, address string) error {
	network := "tcp"
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, address = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// question is the request of a check.
func question(m *model.HealthCheck, endpoint model.Endpoint, method, path, query string) *message.Request {
	host := m.Host
	if host == "" {
		host = endpoint.Host
	}
	r := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: endpoint.Scheme, Host: host, Path: path, Query: query}
	r.Fields.Put(message.UserAgent, "sluice-health-check")
	return r
}

// askHTTP sends a GET and looks at status and body.
func askHTTP(ctx context.Context, transport pipeline.Transport, m *model.HealthCheck, endpoint model.Endpoint) error {
	path, query := m.Path, ""
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path, query = path[:i], path[i:]
	}
	try := pipeline.Attempt{Request: question(m, endpoint, "GET", path, query)}
	if err := transport.RoundTrip(ctx, &try); err != nil {
		return err
	}
	body, err := answer(&try.Response)
	if err != nil {
		return err
	}
	status := try.Response.Status
	if !slices.ContainsFunc(m.ExpectStatus, func(r model.StatusRange) bool { return r.First <= status && status <= r.Last }) {
		return fmt.Errorf("status %d", status)
	}
	if m.ExpectBody != nil && !m.ExpectBody.Match(body) {
		return fmt.Errorf("the body does not match %s", m.ExpectBody)
	}
	return nil
}

// answer is the beginning of the body of a response, which is closed.
func answer(r *message.Response) (body []byte, err error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, probeBody+1)) // one more meets the end, so that the connection can serve again
	if closing := r.Body.Close(); err == nil {
		err = closing
	}
	if len(body) > probeBody {
		body = body[:probeBody]
	}
	return body, err
}

// askCall asks by grpc.health.v1.Health/Check (gRPC Health Checking Protocol). Its
// messages have one field each, a string and a number, so that neither a library
// nor generated code is needed.
func askCall(ctx context.Context, transport pipeline.Transport, m *model.HealthCheck, endpoint model.Endpoint) error {
	r := question(m, endpoint, "POST", "/grpc.health.v1.Health/Check", "")
	r.Fields.Put(message.ContentType, "application/grpc")
	r.Fields.Put(message.TE, "trailers")
	body := call(m.Service)
	r.Body, r.Length = message.Text(body), int64(len(body))
	try := pipeline.Attempt{Request: r}
	if err := transport.RoundTrip(ctx, &try); err != nil {
		return err
	}
	reply, err := answer(&try.Response)
	if err != nil {
		return err
	}
	code, told := try.Response.Fields.Find("Grpc-Status")
	if !told && try.Response.Trailer != nil {
		code, told = try.Response.Trailer().Find("Grpc-Status")
	}
	switch {
	case try.Response.Status != 200:
		return fmt.Errorf("status %d", try.Response.Status)
	case !told:
		return errors.New("the answer has no grpc-status")
	case code != "0":
		return fmt.Errorf("grpc-status %s", code)
	}
	return serving(reply)
}

// call is the message of a HealthCheckRequest with its prefix.
func call(service string) string {
	var payload []byte
	if service != "" { // field 1, a string
		payload = append(binary.AppendUvarint([]byte{0x0a}, uint64(len(service))), service...)
	}
	return string(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload))), payload...))
}

// serving looks for SERVING, 1, in field 1 of a HealthCheckResponse with its
// prefix.
func serving(reply []byte) error {
	if len(reply) >= 7 && reply[0] == 0 && reply[5] == 0x08 && reply[6] == 1 {
		return nil
	}
	if len(reply) == 7 && reply[0] == 0 && reply[5] == 0x08 {
		return fmt.Errorf("it is not serving, but %d (grpc.health.v1)", reply[6])
	}
	return errors.New("it does not tell that it is serving (grpc.health.v1)")
}
