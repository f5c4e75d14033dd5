//go:build unix

package netloop

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// The types of a record (RFC 8446 5.1) and of a message to update keys (4.6.3).
const (
	recordAlert       = 21
	recordHandshake   = 22
	recordData        = 23
	messageKeyUpdate  = 24
	updateRequested   = 1
	updateUnrequested = 0
)

// rawPeer is a client of TLS 1.3 that writes and reads records by itself after
// the handshake, which crypto/tls does.
type rawPeer struct {
	conn    net.Conn
	reader  *bufio.Reader
	in, out rawKeys
}

// rawKeys protect one direction.
type rawKeys struct {
	hash   func() hash.Hash
	secret []byte
	size   int // of the key
	aead   cipher.AEAD
	nonce  []byte
	count  uint64
}

// newRawPeer returns our server's side and that client.
func newRawPeer(t testing.TB, x Executor, server, client *tls.Config) (*TLS, *rawPeer) {
	t.Helper()
	server, client = of(server, tls.VersionTLS13), client.Clone()
	server.SessionTicketsDisabled = true // else the first records are not the test's
	var log bytes.Buffer
	client.KeyLogWriter = &log
	own, other := tlsServed(t, x, server, client)
	keys := rawKeys{hash: sha256.New, size: 16}
	switch suite := other.ConnectionState().CipherSuite; suite {
	case tls.TLS_AES_128_GCM_SHA256:
	case tls.TLS_AES_256_GCM_SHA384:
		keys.hash, keys.size = sha512.New384, 32
	default:
		_ = own.Close()
		t.Skip("this machine prefers", tls.CipherSuiteName(suite))
	}
	p := &rawPeer{conn: other.NetConn(), in: keys, out: keys}
	p.reader = bufio.NewReader(p.conn)
	for line := range strings.Lines(log.String()) {
		fields := strings.Fields(line)
		secret, err := hex.DecodeString(fields[2])
		if err != nil {
			t.Error(err)
		}
		switch fields[0] {
		case "CLIENT_TRAFFIC_SECRET_0":
			p.out.use(secret)
		case "SERVER_TRAFFIC_SECRET_0":
			p.in.use(secret)
		}
	}
	return own, p
}

// expand is HKDF-Expand-Label (RFC 8446 7.1) without context.
func (k *rawKeys) expand(label string, n int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label...)
	out, err := hkdf.Expand(k.hash, k.secret, string(append(info, 0)), n)
	if err != nil {
		panic(err)
	}
	return out
}

func (k *rawKeys) use(secret []byte) {
	k.secret, k.count = secret, 0
	block, err := aes.NewCipher(k.expand("key", k.size))
	if err != nil {
		panic(err)
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		panic(err)
	}
	k.nonce = k.expand("iv", k.aead.NonceSize())
}

// update goes on to the next keys.
func (k *rawKeys) update() { k.use(k.expand("traffic upd", k.hash().Size())) }

func (k *rawKeys) next() []byte {
	nonce := bytes.Clone(k.nonce)
	last := nonce[len(nonce)-8:]
	binary.BigEndian.PutUint64(last, binary.BigEndian.Uint64(last)^k.count)
	k.count++
	return nonce
}

// seal makes a record.
func (p *rawPeer) seal(kind byte, content []byte) []byte {
	inner := append(bytes.Clone(content), kind)
	header := []byte{recordData, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(header[3:], uint16(len(inner)+p.out.aead.Overhead()))
	return p.out.aead.Seal(bytes.Clone(header), p.out.next(), inner, header)
}

// data makes a record of data.
func (p *rawPeer) data(text string) []byte { return p.seal(recordData, []byte(text)) }

// update makes a record that says that what follows is by new keys.
func (p *rawPeer) update(request byte) []byte {
	record := p.seal(recordHandshake, []byte{messageKeyUpdate, 0, 0, 1, request})
	p.out.update()
	return record
}

// read reads a record; it follows the other side's new keys.
func (p *rawPeer) read() (kind byte, content []byte, err error) {
	var header [headerBytes]byte
	if _, err = io.ReadFull(p.reader, header[:]); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err = io.ReadFull(p.reader, body); err != nil {
		return 0, nil, err
	}
	if content, err = p.in.aead.Open(body[:0], p.in.next(), body, header[:]); err != nil {
		return 0, nil, err
	}
	content = bytes.TrimRight(content, "\x00")
	kind, content = content[len(content)-1], content[:len(content)-1]
	if kind == recordHandshake {
		if !bytes.Equal(content, []byte{messageKeyUpdate, 0, 0, 1, updateUnrequested}) {
			return 0, nil, fmt.Errorf("a message % x", content)
		}
		p.in.update()
	}
	return kind, content, nil
}

// readData reads data up to n bytes, and counts the new keys that come between.
func (p *rawPeer) readData(n int64) (data []byte, updates int, err error) {
	for int64(len(data)) < n {
		kind, content, err := p.read()
		switch {
		case err != nil:
			return data, updates, err
		case kind == recordData:
			data = append(data, content...)
		default:
			updates++
		}
	}
	return data, updates, nil
}

// TestTLSKeyUpdateBesideWriter has a reader answer new keys while a writer
// waits, on one loop: nothing may wait for the lock that crypto/tls holds.
func TestTLSKeyUpdateBesideWriter(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, p := newRawPeer(t, x, server, client)
		defer func() { _ = own.Close() }()
		const size = 16 << 20 // more than any queue of the system's takes
		writing := beside(x, func() {
			if _, err := io.CopyBuffer(struct{ io.Writer }{own}, noise(5, size), make([]byte, 100<<10)); err != nil {
				t.Errorf("write: %v", err)
			}
		})
		settle(t, x, "the writer waits", func() bool { return own.Unsent() > 0 })
		const rounds = 50
		got := make([]byte, 1)
		for i := range rounds {
			text := string(rune('a' + i%26))
			_, _ = p.conn.Write(append(p.update(updateRequested), p.data(text)...))
			if _, err := io.ReadFull(own, got); err != nil || string(got) != text {
				t.Errorf("read %q, %v beside a writer", got, err)
				return
			}
		}
		// Others run, too.
		if err := beside(x, func() {}).Wait(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		x.Block(func() {
			data, updates, err := p.readData(size)
			if err != nil || updates != rounds {
				t.Errorf("the peer read %d bytes and %d new keys, %v", len(data), updates, err)
			}
			sameNoise(t, bytes.NewReader(data), 5, size)
		})
		if err := writing.Wait(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		_, _ = own.Write([]byte("still"))
		x.Block(func() {
			if data, _, err := p.readData(5); err != nil || string(data) != "still" {
				t.Errorf("then the peer read %q, %v", data, err)
			}
		})
	})
}

// TestTLSKeyUpdateAlone has new keys come where nobody writes, also in parts, at
// rest, and without end.
func TestTLSKeyUpdateAlone(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, p := newRawPeer(t, x, server, client)
		defer func() { _ = own.Close() }()
		answered := func(what string) {
			t.Helper()
			x.Block(func() {
				if kind, _, err := p.read(); kind != recordHandshake || err != nil {
					t.Errorf("%s: a record %d, %v", what, kind, err)
				}
			})
		}
		reads := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(own, got); err != nil || string(got) != want {
				t.Errorf("read %q, %v", got, err)
			}
		}
		_, _ = p.conn.Write(append(p.update(updateUnrequested), p.data("a")...))
		reads("a")

		// At rest it neither makes it stale nor is anything there to read.
		_, _ = p.conn.Write(p.update(updateRequested))
		settle(t, x, "it comes", own.Inner().Stale)
		if own.Stale() || own.Pending() {
			t.Error("new keys count as something")
		}
		answered("at rest")
		atRest(t, own)

		// A message in two records, and a wait between them.
		message := []byte{messageKeyUpdate, 0, 0, 1, updateRequested}
		_, _ = p.conn.Write(p.seal(recordHandshake, message[:2]))
		settle(t, x, "it comes", own.Inner().Stale)
		if own.Stale() {
			t.Error("half of a message counts as something")
		}
		own.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		_, _ = own.Read(make([]byte, 1))
		own.SetReadDeadline(time.Time{})
		second := p.seal(recordHandshake, message[2:])
		_, _ = p.conn.Write(second[:9])
		settle(t, x, "it comes", own.Inner().Stale)
		if !own.Stale() {
			t.Error("a part of a record is not there")
		}
		p.out.update()
		_, _ = p.conn.Write(append(second[9:], p.data("b")...))
		reads("b")
		answered("in two records")

		_, _ = p.conn.Write(p.seal(recordAlert, []byte{2, 80})) // internal_error
		settle(t, x, "it comes", own.Inner().Stale)
		if _, err := own.Read(make([]byte, 1)); !own.Stale() || err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("an alert: %v", err)
		}
	})
}

// TestTLSKeyUpdateFlood has a peer ask for new keys, which takes no answer.
func TestTLSKeyUpdateFlood(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, p := newRawPeer(t, x, server, client)
		defer func() { _ = own.Close() }()
		writing := beside(x, func() { _ = fill(own) })
		settle(t, x, "the writer waits", func() bool { return own.Unsent() > 0 })
		go func() {
			for {
				if _, err := p.conn.Write(append(p.update(updateRequested), p.data("x")...)); err != nil {
					return
				}
			}
		}()
		n, err := int64(0), error(nil)
		for err == nil {
			var more int
			more, err = own.Read(make([]byte, 100))
			n += int64(more)
		}
		if err != errAnswers { //nolint:errorlint // the very value
			t.Errorf("read %d, %v", n, err)
		}
		if got := own.Unsent(); got > 2*mostStanding {
			t.Errorf("%d bytes wait", got)
		}
		_ = own.Close()
		_ = writing.Wait(time.Time{})
	})
}

// TestTLSBadRecord has a record come that was tampered with: the peer is told,
// and nothing looks like an end.
func TestTLSBadRecord(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, p := newRawPeer(t, x, server, client)
		good, tampered := p.data("good"), p.data("tampered")
		tampered[len(tampered)-1] ^= 1
		_, _ = p.conn.Write(append(good, tampered...))
		got := make([]byte, 8)
		if n, err := own.Read(got); err != nil || string(got[:n]) != "good" {
			t.Errorf("read %q, %v", got[:n], err)
		}
		_, err := own.Read(got)
		if err == nil || !strings.Contains(err.Error(), "bad record MAC") {
			t.Errorf("read: %v", err)
		}
		if _, err := own.Write([]byte("x")); err == nil {
			t.Error("it can still write")
		}
		_ = own.Close()
		x.Block(func() {
			if kind, content, err := p.read(); err != nil || kind != recordAlert || !bytes.Equal(content, []byte{2, 20}) {
				t.Errorf("the peer read a record %d, % x, %v", kind, content, err)
			}
			if kind, content, err := p.read(); err != io.EOF { //nolint:errorlint // the very value
				t.Errorf("and then a record %d, % x, %v", kind, content, err)
			}
		})
	})
}
