package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strings"

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
	binaryCommand  = 12
	binaryFamily   = 13
	binaryLengthAt = 14
	longestBinary  = 4096 // behind the head: what the library takes

	proxied     = 0x21 // version 2, command PROXY
	unspecified = 0x00 // AF_UNSPEC
)

var (
	errNoProxyHeader = errors.New("the connection does not begin with a PROXY header")
	errLongHeader    = errors.New("the PROXY header is too long")
	errChecksum      = errors.New("the checksum of the PROXY header is wrong")
)

// introduced reads the PROXY header, which tells who the client is. Who may use a
// Unix socket is for the permissions of its file to say.
func (c *client) introduced(in *input, m *model.Listener) bool {
	if !strings.HasPrefix(c.listener.address, unixPrefix) && !m.Trusts(c.peer.Addr()) {
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
		length := int(binary.BigEndian.Uint16(data[binaryLengthAt:]))
		if length > longestBinary {
			return 0, errLongHeader
		}
		if n = binaryHead + length; len(data) < n {
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
		return 0, errLongHeader
	}
	return 0, errNoProxyHeader
}

// present makes the header's client the connection's peer. A proxy that speaks
// for itself, as to see whether the gateway lives, or that does not know its
// client, stays the peer.
func (c *client) present(header []byte) error {
	if header[0] == proxyBinary[0] && header[binaryCommand] == proxied && header[binaryFamily] == unspecified {
		return nil // the library refuses it, which a receiver may (2.2); that of version 1 it takes
	}
	h, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(header)))
	if err != nil {
		return fmt.Errorf("the PROXY header is malformed: %w", err)
	}
	if h.Command.IsLocal() {
		return nil
	}
	if err := verify(header); err != nil {
		return err
	}
	source, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	c.peer, c.target = addrPort(source), addrPort(h.DestinationAddr)
	c.peerText = pipeline.PeerText(c.peer)
	return nil
}

// addressBytes is how long the addresses of a family are (2.2).
func addressBytes(family byte) int {
	switch family >> 4 {
	case 1: // AF_INET
		return 2 * (net.IPv4len + 2)
	case 2: // AF_INET6
		return 2 * (net.IPv6len + 2)
	case 3: // AF_UNIX
		return 2 * 108
	}
	return 0
}

// verify holds what follows the addresses of version 2 to its form, and the
// header to its checksum, if it has one (2.2.3).
func verify(header []byte) error {
	if header[0] != proxyBinary[0] {
		return nil
	}
	const typed = 3 // bytes before a value: its type and its length
	for rest := header[binaryHead+addressBytes(header[binaryFamily]):]; len(rest) > 0; {
		if len(rest) < typed || len(rest)-typed < int(binary.BigEndian.Uint16(rest[1:])) {
			return fmt.Errorf("the PROXY header is malformed: %w", proxyproto.ErrTruncatedTLV)
		}
		kind, value := proxyproto.PP2Type(rest[0]), rest[typed:typed+int(binary.BigEndian.Uint16(rest[1:]))]
		rest = rest[typed+len(value):]
		if kind != proxyproto.PP2_TYPE_CRC32C {
			continue
		}
		end := len(header) - len(rest)
		if len(value) != crc32.Size || checksum(header[:end-crc32.Size], header[end:]) != binary.BigEndian.Uint32(value) {
			return errChecksum
		}
	}
	return nil
}

// checksum is that of a header with nothing but zeros where it stands.
func checksum(before, after []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, before)
	return crc32.Update(crc32.Update(sum, table, make([]byte, crc32.Size)), table, after)
}
