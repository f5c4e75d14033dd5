package proxy

import (
	"net/netip"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// attempt tries one endpoint, from start on, up to the head of its response. begun
// is false where there was none to try.
func (f *forward) attempt(start time.Time) (begun bool, err error) {
	if err := f.side.Group.Begin(&f.turn, f.x, f.tried, start); err != nil {
		return false, err
	}
	if err := f.admitted(f.side); err != nil {
		f.turn.Undo(start)
		return false, err
	}
	f.x.Attempts++
	if f.repeats != nil && f.side.Repeated != nil {
		f.side.Repeated()
	}
	f.x.Upstream, f.x.Endpoint, f.x.Version = f.side.Group.Name(), f.turn.Endpoint.URL, f.version()
	f.try = pipeline.Attempt{Request: f.ask(), Watch: &f.watch}
	if f.side.Group.ProxyProtocol != "" {
		f.introduce()
	}
	f.try.Response.Fields = f.room
	if f.x.Informer != nil {
		f.try.Informer = f
	}
	returned := false
	defer func() {
		if !returned { // a body or the client's informer has panicked
			f.turn.Dropped(time.Now())
		}
	}()
	err = f.turn.Endpoint.Transport.RoundTrip(f.x.Context(), &f.try)
	returned = true
	now := time.Now()
	f.x.UpstreamTime += now.Sub(start)
	if err = f.late(err); err == nil && f.call {
		code, _ := f.try.Response.Fields.Find(grpcStatus)
		if err = f.lateCode(code); err != nil {
			_ = f.try.Response.Close() // it says the same
		}
	}
	switch {
	case err == nil:
		f.turn.Answered(f.status(), now)
		return true, nil
	case atFault(err):
		f.turn.Failed(now)
	default:
		f.turn.Dropped(now)
	}
	f.turn.End()
	return true, err
}

// ask is what the endpoint of the attempt is asked. The first one is asked what is
// there, all others a copy.
func (f *forward) ask() *message.Request {
	r := &f.request
	if f.x.Attempts > 1 {
		clone := f.request
		clone.Fields = f.request.Fields.Clone()
		clone.Body = f.body()
		r = &clone
	}
	endpoint := &f.turn.Endpoint.Endpoint
	r.Path, r.Host = joined(endpoint.BasePath, f.path), f.host
	if f.host == "" {
		r.Host = endpoint.Host
	}
	if f.call {
		pipeline.KeepDeadline(&r.Fields, f.x.Until)
	}
	return r
}

// status is what the response of the attempt came to: its status or, of a call that
// ended without a message, the one that its code stands for.
func (f *forward) status() int {
	r := &f.try.Response
	if f.call && r.Status == 200 {
		if code, there := r.Fields.Find(grpcStatus); there {
			return rpc.StatusOf(code)
		}
	}
	return r.Status
}

// grpcStatus is the field, or trailer, with the code of a call.
const grpcStatus = "Grpc-Status"

// version is the label of the release that is tried.
func (f *forward) version() string {
	if f.side.Version != "" {
		return f.side.Version
	}
	return f.turn.Endpoint.Version
}

// introduce tells the attempt of the client, as far as that is known.
func (f *forward) introduce() {
	if f.x.ClientIP.IsValid() {
		f.try.Client = netip.AddrPortFrom(f.x.ClientIP, f.x.Peer.Port())
	}
	if f.x.Local != nil {
		f.try.Local = f.x.Local()
	}
}

// Inform passes informational responses on; they count as bytes. What may follow is
// another attempt: a client takes several of them, whoever gave them.
func (f *forward) Inform(status int, fields message.Fields) {
	f.watch.Touch()
	dropHops(&fields)
	appendTo(&fields, message.Via, f.viaOf(message.HTTP11)) // HTTP/1.0 has none
	f.x.Informer.Inform(status, fields)
}
