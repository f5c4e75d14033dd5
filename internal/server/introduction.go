package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/pires/go-proxyproto"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// The two forms of a PROXY header, as haproxy's proxy-protocol.txt has them.
const (
	proxyText      = "PROXY "                                           // 2.1
	proxyBinary    = "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a" // 2.2
	longestText    = 107
	binaryHead     = 16
	binaryLengthAt = 14
)

var errNoProxyHeader = errors.New("the connection does not begin with a PROXY header")

// introduced reads the PROXY header, which tells who the client is.
func (c *client) introduced(in *input, m *model.Listener) bool {
	if !m.Trusts(c.peer.Addr()) {
		c.unopened(fmt.Errorf("%v is none of trusted_proxies", c.peer.Addr()))
		return false
	}
	for {
		n, err := proxyHeader(in.bytes())
		if err == nil && n == 0 {
			if err = in.fill(); err == nil {
				continue
			}
			err = fmt.Errorf("the PROXY header did not come: %w", err)
		}
		if err == nil {
			err = c.present(in.bytes()[:n])
		}
		if err != nil {
			c.unopened(err)
			return false
		}
		in.use(n)
		return true
	}
}

// proxyHeader returns the length of the header that data begins with, 0 where
// more must come.
func proxyHeader(data []byte) (n int, err error) {
	switch {
	case begins(data, proxyBinary):
		if len(data) < binaryHead {
			return 0, nil
		}
		n = binaryHead + int(binary.BigEndian.Uint16(data[binaryLengthAt:]))
		if len(data) < n {
			return 0, nil
		}
		return n, nil
	case begins(data, proxyText):
		seen := data[:min(len(data), longestText)]
		if end := bytes.IndexByte(seen, '\n'); end >= 0 {
			return end + 1, nil
		}
		if len(data) < longestText {
			return 0, nil
		}
		return 0, errors.New("the PROXY header is too long")
	}
	return 0, errNoProxyHeader
}

// present makes the header's client the connection's peer. A proxy that speaks
// for itself, as to see whether the gateway lives, stays the peer.
func (c *client) present(header []byte) error {
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(header)))
	if err != nil {
		return fmt.Errorf("the PROXY header is malformed: %w", err)
	}
	source, ok := h.SourceAddr.(*net.TCPAddr)
	if h.Command.IsLocal() || !ok {
		return nil
	}
	c.peer, c.target = addrPort(source), addrPort(h.DestinationAddr)
	c.peerText = pipeline.PeerText(c.peer)
	return nil
}
