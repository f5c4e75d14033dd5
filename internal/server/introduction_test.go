package server_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// behindProxy lets a listener be for a proxy on this machine alone.
func behindProxy(m *model.Listener) {
	m.ProxyProtocol = true
	m.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	m.Protocols = []string{model.H1}
}

// binaryHeader is a PROXY header of version 2: command 0 is LOCAL, 1 is PROXY.
func binaryHeader(command, family byte, addresses []byte) string {
	b := []byte("\r\n\r\n\x00\r\nQUIT\n")
	b = append(b, 0x20|command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(addresses)))
	return string(append(b, addresses...))
}

var (
	address4 = []byte{203, 0, 113, 8, 127, 0, 0, 1, 0x15, 0xb3, 0, 80}
	address6 = append(append(append(netip.MustParseAddr("2001:db8::7").AsSlice(), netip.MustParseAddr("::1").AsSlice()...), 0x15, 0xb3), 0, 80)
	// typed is a TLV (2.2.7) that nobody knows.
	typed = []byte{0xe0, 0, 3, 1, 2, 3}
)

// summed is a header with a checksum in its middle, that is off by so much.
func summed(off uint32) string {
	b := []byte(binaryHeader(1, 0x11, append(append(bytes.Clone(address4), 3, 0, 4, 0, 0, 0, 0), typed...)))
	at := len(b) - len(typed) - 4
	binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))+off)
	return string(b)
}

// TestProxyHeaders reads each kind of header, whole and byte by byte.
func TestProxyHeaders(t *testing.T) {
	ofEngine(t, "the adapter has no PROXY headers")
	locals := make(chan netip.AddrPort, 2)
	f := start(t, func(x *pipeline.Exchange) error {
		locals <- x.Local()
		return text("ok")(x)
	}, behindProxy)
	for _, test := range []struct{ name, header, peer, local string }{
		{"v1 of IPv4", "PROXY TCP4 203.0.113.7 127.0.0.1 5555 80\r\n", "203.0.113.7:5555", "127.0.0.1:80"},
		{"v1 of IPv6", "PROXY TCP6 2001:db8::7 ::1 5555 80\r\n", "[2001:db8::7]:5555", "[::1]:80"},
		{"v1 unknown", "PROXY UNKNOWN\r\n", "", ""},
		{"v2 of IPv4", binaryHeader(1, 0x11, address4), "203.0.113.8:5555", "127.0.0.1:80"},
		{"v2 of IPv6", binaryHeader(1, 0x21, address6), "[2001:db8::7]:5555", "[::1]:80"},
		{"v2 with more than addresses", binaryHeader(1, 0x11, append(bytes.Clone(address4), typed...)), "203.0.113.8:5555", "127.0.0.1:80"},
		{"v2 local", binaryHeader(0, 0, nil), "", ""},
		{"v2 with a checksum", summed(0), "203.0.113.8:5555", "127.0.0.1:80"},
		{"v2 of a Unix socket", binaryHeader(1, 0x31, make([]byte, 216)), "", ""},
		{"v2 unknown", binaryHeader(1, 0, nil), "", ""},
		{"v2 unknown with more", binaryHeader(1, 0, typed), "", ""},
		{"v2 of the largest", binaryHeader(1, 0, make([]byte, 4096)), "", ""},
	} {
		for _, way := range []string{"whole", "byte by byte"} {
			c := f.dial()
			if way == "whole" {
				c.send(test.header + get("/"))
			} else {
				for i := range len(test.header) {
					c.send(test.header[i : i+1])
				}
				c.send(get("/"))
			}
			if response, body := c.answer("GET"); response.StatusCode != http.StatusOK || body != "ok" {
				t.Errorf("%s, %s: %d, %q", test.name, way, response.StatusCode, body)
			}
			want := test.peer
			if want == "" {
				want = c.LocalAddr().String()
			}
			x := f.next(t)
			if local := <-locals; test.local == "" && local.String() != f.listener.Addr().String() || test.local != "" && local.String() != test.local {
				t.Errorf("%s, %s: it came to %v, want %s", test.name, way, local, test.local)
			}
			if x.Peer.String() != want || x.PeerText() != netip.MustParseAddrPort(want).Addr().String() {
				t.Errorf("%s, %s: the peer is %v, %s; want %s", test.name, way, x.Peer, x.PeerText(), want)
			}
			// A second request has none.
			if response, _ := c.send(get("/")).answer("GET"); response.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: %d to the second request", test.name, way, response.StatusCode)
			}
			f.next(t)
			<-locals
		}
	}
}

// TestProxyHeadersRefused closes what does not begin with one.
func TestProxyHeadersRefused(t *testing.T) {
	ofEngine(t, "the adapter has no PROXY headers")
	f := start(t, text("never"), behindProxy)
	failed := int64(0)
	for name, in := range map[string]string{
		"none":                get("/"),
		"v1 too long":         "PROXY TCP4 " + strings.Repeat("1", 100),
		"v1 of nonsense":      "PROXY TCP4 one two 5555 80\r\n" + get("/"),
		"v1 without CR":       "PROXY TCP4 203.0.113.7 127.0.0.1 5555 80\n" + get("/"),
		"v2 with too little":  binaryHeader(1, 0x11, address4[:4]) + get("/"),
		"v2 too long":         binaryHeader(1, 0, make([]byte, 4097)),
		"v2 with a cut type":  binaryHeader(1, 0x11, append(bytes.Clone(address4), typed[:2]...)) + get("/"),
		"v2 with a cut value": binaryHeader(1, 0x11, append(bytes.Clone(address4), typed[:5]...)) + get("/"),
		"v2 with a wrong sum": summed(1) + get("/"),
		"v2 with a short sum": binaryHeader(1, 0x11, append(bytes.Clone(address4), 3, 0, 2, 1, 2)) + get("/"),
		"v2 of version 3":     strings.Replace(binaryHeader(1, 0x11, address4), "\x21", "\x31", 1) + get("/"),
	} {
		c := f.dial().send(in)
		c.ends()
		failed++
		waittest.Until(t, "a count of "+name, func() bool { return f.listener.Status().Failed == failed })
	}
	c := f.dial().send("PROXY TCP4 203.0.113.7 127.0.0.1")
	c.closeWrite()
	c.ends()
	if len(f.ended) > 0 {
		t.Errorf("it was an exchange: %v", (<-f.ended).Err)
	}
}

// TestProxyHeaderOfAStranger closes the connections of all but trusted proxies.
func TestProxyHeaderOfAStranger(t *testing.T) {
	ofEngine(t, "the adapter has no PROXY headers")
	f := start(t, text("never"), behindProxy, func(m *model.Listener) {
		m.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	f.dial().send("PROXY TCP4 203.0.113.7 127.0.0.1 5555 80\r\n" + get("/")).ends()
	if n := f.listener.Status().Failed; n != 1 {
		t.Errorf("%d failed", n)
	}
}

// TestProxyHeaderOnAUnixSocket believes whoever the file's permissions let in.
func TestProxyHeaderOnAUnixSocket(t *testing.T) {
	ofEngine(t, "the adapter has no PROXY headers")
	f := start(t, text("ok"), behindProxy, func(m *model.Listener) {
		m.Address, m.TrustedProxies = "unix:"+filepath.Join(t.TempDir(), "s"), nil
	})
	for _, test := range []struct{ header, peer string }{
		{"PROXY TCP4 203.0.113.7 127.0.0.1 5555 80\r\n", "203.0.113.7:5555"},
		{binaryHeader(1, 0x11, address4), "203.0.113.8:5555"},
		{"PROXY UNKNOWN\r\n", netip.AddrPort{}.String()},
		{binaryHeader(0, 0, nil), netip.AddrPort{}.String()},
	} {
		if response, _ := f.dial().send(test.header + get("/")).answer("GET"); response.StatusCode != http.StatusOK {
			t.Errorf("%q: %d", test.header, response.StatusCode)
		}
		if x := f.next(t); x.Peer.String() != test.peer {
			t.Errorf("%q: the peer is %v", test.header, x.Peer)
		}
	}
	f.dial().send(get("/")).ends()
	if n := f.listener.Status().Failed; n != 1 {
		t.Errorf("%d failed", n)
	}
}

// TestProxyHeaderIsAwaited bounds how long it may take.
func TestProxyHeaderIsAwaited(t *testing.T) {
	ofEngine(t, "the adapter has no PROXY headers")
	f := start(t, text("never"), behindProxy, func(m *model.Listener) { m.Timeouts.ReadHeader = 50 * time.Millisecond })
	f.dial().send("PROXY").ends()
}

// TestUnexpectedProxyHeader refuses one where none is expected, as any malformed
// request.
func TestUnexpectedProxyHeader(t *testing.T) {
	ofEngine(t, "net/http tells nobody")
	f := start(t, text("never"))
	c := f.dial().send("PROXY TCP4 203.0.113.7 127.0.0.1 5555 80\r\n" + get("/"))
	if response, _ := c.answer("GET"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", response.StatusCode)
	}
	if x := f.next(t); x.Err.Word != pipeline.BadRequest {
		t.Error(x.Err)
	}
}

// TestHTTP1IsNotSpoken refuses it on a listener for HTTP/2 alone.
func TestHTTP1IsNotSpoken(t *testing.T) {
	ofEngine(t, "the adapter has no protocols")
	f := start(t, text("never"), func(m *model.Listener) { m.Protocols = []string{model.H2} })
	c := f.dial().send(get("/"))
	if response, _ := c.answer("GET"); response.StatusCode != http.StatusHTTPVersionNotSupported {
		t.Errorf("%d", response.StatusCode)
	}
	c.ends()
	if x := f.next(t); x.Err.Word != pipeline.BadVersion {
		t.Error(x.Err)
	}
}
