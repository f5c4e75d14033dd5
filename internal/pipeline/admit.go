package pipeline

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// The methods that the gateway passes by name when it has to list some.
const knownMethods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// Admit does what comes before routing (SPEC 4, steps 1 to 4): it refuses what
// no listener takes, brings the path into its one form, finds the client's
// address, drops fields that only a trusted proxy may set and those that
// Connection names, and gives the request its id. Its errors close the connection.
//
// report is called instead of an error where the listener only reports paths.
func Admit(x *Exchange, report func(violation error)) error {
	tooLarge := oversized(x) // as it came, before fields go and come
	x.PeerTrusted = x.Listener.Trusts(x.ClientIP)
	if !x.PeerTrusted {
		x.Request.Fields.DeleteFunc(forwardedByOthers)
	} else {
		x.Request.Fields.DeleteFunc(lookAlike)
		x.ClientIP = clientAddress(x)
		tidyForwarded(&x.Request.Fields)
		adoptForwarded(x)
	}
	dropNamed(&x.Request.Fields)
	x.Identify()
	x.Request.Fields.Put(message.XRequestID, x.ID)
	x.TraceID = traceID(x.Request.Fields.Get(message.Traceparent))
	x.Until = callDeadline(x)
	if err := admitTarget(x, tooLarge, report); err != nil {
		err.Close = true
		return err
	}
	return nil
}

// oversized returns what to refuse a request with that is larger than its
// listener takes.
func oversized(x *Exchange) *Error {
	r, limits := x.Request, x.Listener.Limits
	switch {
	case limits.URIBytes > 0 && int64(len(r.Target)) > limits.URIBytes:
		return NewError(URITooLong, nil)
	case limits.Headers > 0 && len(r.Fields) > limits.Headers:
		return NewError(HeaderTooLarge, errors.New("too many fields"))
	case limits.HeaderBytes > 0 && headerBytes(r) > limits.HeaderBytes:
		return NewError(HeaderTooLarge, nil)
	case limits.Body > 0 && r.Length > limits.Body:
		return NewError(BodyTooLarge, fmt.Errorf("%d bytes are announced, limits.body is %d", r.Length, limits.Body))
	}
	return nil
}

func admitTarget(x *Exchange, tooLarge *Error, report func(violation error)) *Error {
	r := x.Request
	switch {
	case r.Method == "CONNECT":
		err := NewError(MethodNotAllowed, errors.New("CONNECT"))
		err.Detail = "This gateway is no forward proxy."
		err.Fields.Put(message.Allow, knownMethods)
		return err
	case tooLarge != nil:
		return tooLarge
	case r.Host != "" && !canonical.ValidAuthority(r.Host), r.Host == "" && r.Protocol != message.HTTP10:
		return NewError(BadRequest, errors.New("invalid Host"))
	case strings.Contains(r.Target, "#"):
		return NewError(BadRequest, errors.New("a fragment in the target")) // RFC 9112 3.2: no form has one
	case !validForm(r.Target):
		return NewError(BadRequest, errors.New("an invalid absolute target"))
	case r.Method == "OPTIONS" && r.Path == "*":
		return nil
	}
	paths := x.Listener.Paths
	path, violation := canonical.Path(r.Path, canonical.Options{KeepSlashes: !paths.MergeSlashes, EncodedSlash: canonical.EncodedSlash(paths.EncodedSlash)})
	if violation != nil {
		if !paths.Report {
			err := NewError(BadPath, violation)
			err.Detail = Sentence(violation.Error())
			return err
		}
		report(violation)
	}
	r.Path = path
	return nil
}

// validForm tells whether a target that is neither a path nor * is an http or
// https URI with an authority (RFC 9110 4.2), without user information (4.2.4).
func validForm(target string) bool {
	if target == "" || target == "*" || strings.HasPrefix(target, "/") {
		return true
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return false
	}
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	return canonical.ValidAuthority(rest)
}

// headerBytes is the size of the head as it stood on the wire, within the few
// bytes that white space around values may take.
func headerBytes(r *message.Request) int64 {
	size := len(r.Method) + len(r.Target) + len("  HTTP/1.1\r\n") + len("Host: \r\n") + len(r.Host) + len("\r\n")
	for i := range r.Fields {
		size += len(r.Fields[i].Name) + len(r.Fields[i].Value) + len(": \r\n")
	}
	return int64(size)
}

// Identify gives the exchange its request id, if it has none: the one that a
// trusted proxy sent, or a new UUIDv7 (RFC 9562 5.7).
func (x *Exchange) Identify() {
	if x.ID != "" {
		return
	}
	if x.PeerTrusted && x.Request != nil {
		if id := x.Request.Fields.Get(message.XRequestID); validID(id) {
			x.ID = id
			return
		}
	}
	now := x.Start
	if now.IsZero() {
		now = time.Now()
	}
	x.ID = newID(now)
}

func validID(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 128
}

// traceID returns the trace id of a valid traceparent (W3C Trace Context
// 3.2.2), else "".
func traceID(parent string) string {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' || parent[52] != '-' || parent[:2] == "ff" || len(parent) > 55 && (parent[:2] == "00" || parent[55] != '-') {
		return ""
	}
	for i, c := range []byte(parent[:55]) {
		if dash := i == 2 || i == 35 || i == 52; !dash && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f') {
			return ""
		}
	}
	if id := parent[3:35]; id != strings.Repeat("0", 32) && parent[36:52] != strings.Repeat("0", 16) {
		return id
	}
	return ""
}

// Sentence makes one of a clause.
func Sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

// clientAddress walks the forwarded addresses from the right and returns the
// first that is not trusted. At an entry that is no address the walk ends with
// the last good one.
func clientAddress(x *Exchange) netip.Addr {
	client := x.ClientIP
	entries := forwardedAddresses(x.Request.Fields)
	for i := len(entries) - 1; i >= 0; i-- {
		address, ok := parseNode(entries[i])
		if !ok {
			break
		}
		client = address
		if !x.Listener.Trusts(address) {
			break
		}
	}
	return client
}
