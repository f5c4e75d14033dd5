package h2_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/h2"
)

// FuzzFrames sends whatever: nothing panics, the connection ends with its client,
// and memory stays within bounds. What comes back is frames.
func FuzzFrames(f *testing.F) {
	frames := func(do func(framer *http2.Framer, encode func(...string) []byte)) []byte {
		var out, block bytes.Buffer
		framer := http2.NewFramer(&out, nil)
		framer.AllowIllegalWrites = true
		encoder := hpack.NewEncoder(&block)
		do(framer, func(pairs ...string) []byte {
			block.Reset()
			for i := 0; i < len(pairs); i += 2 {
				_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
			}
			return bytes.Clone(block.Bytes())
		})
		return out.Bytes()
	}
	request := []string{":method", "POST", ":scheme", "http", ":authority", "a.example", ":path", "/"}
	f.Add(frames(func(w *http2.Framer, encode func(...string) []byte) {
		_ = w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}, http2.Setting{ID: http2.SettingHeaderTableSize})
		_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(request...), EndHeaders: true})
		_ = w.WriteDataPadded(1, false, []byte("abc"), make([]byte, 10))
		_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode("x-t", "1"), EndHeaders: true, EndStream: true})
		_ = w.WriteWindowUpdate(1, 100)
		_ = w.WriteWindowUpdate(0, 100)
	}))
	f.Add(frames(func(w *http2.Framer, encode func(...string) []byte) {
		_ = w.WriteSettings()
		_ = w.WriteSettingsAck()
		_ = w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: encode(request...), Priority: http2.PriorityParam{StreamDep: 3}})
		_ = w.WriteContinuation(1, true, encode("content-length", "3", "cookie", "a", "cookie", "b"))
		_ = w.WriteData(1, true, []byte("abc"))
		_ = w.WriteRSTStream(1, http2.ErrCodeCancel)
		_ = w.WriteGoAway(0, http2.ErrCodeNo, nil)
		_ = w.WritePing(false, [8]byte{})
		_ = w.WritePriority(5, http2.PriorityParam{StreamDep: 1})
		_ = w.WritePriorityUpdate(1, "u=1")
	}))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\x82"))
	f.Fuzz(func(t *testing.T, input []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		memory := &memory{input: bytes.NewReader(input)}
		memory.server = h2.NewConn(memory, h2.Options{Preface: []byte(http2.ClientPreface), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(r.Body, 1<<20))
			w.Header().Set(http.TrailerPrefix+"X-T", "1")
		})})
		_ = memory.server.Serve()
		framer := http2.NewFramer(io.Discard, &memory.output)
		framer.SetMaxReadFrameSize(16 << 10)
		for {
			if _, err := framer.ReadFrame(); err != nil {
				if !errors.Is(err, io.EOF) {
					t.Error(err, framer.ErrorDetail())
				}
				break
			}
		}
		server := memory.server
		if server.Active() != 0 {
			t.Error("streams are left")
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 8<<20+100*int64(len(input)) {
			t.Errorf("%d bytes were allocated for %d", grown, len(input))
		}
	})
}

// memory is a connection on which a client says something, and goes.
type memory struct {
	server *h2.Conn
	input  *bytes.Reader
	output bytes.Buffer // one writer
}

// Read gives what the client says, and then some time.
func (m *memory) Read(p []byte) (int, error) {
	for i := 0; m.input.Len() == 0 && i < 100 && m.server.Active() != 0; i++ {
		runtime.Gosched()
	}
	return m.input.Read(p)
}

func (m *memory) Write(p []byte) (int, error)      { return m.output.Write(p) }
func (m *memory) Close() error                     { return nil }
func (m *memory) LocalAddr() net.Addr              { return nil }
func (m *memory) RemoteAddr() net.Addr             { return nil }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }
