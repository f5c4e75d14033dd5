//go:build unix

package netloop

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	pourChild   = "NETLOOP_POUR"
	pourClients = 4
	bufferBytes = 64 << 10
)

// TestPourPeers is the process of BenchmarkPipe's peers: it sends as many bytes
// as it is asked for, and takes them at the other side of the relay.
func TestPourPeers(t *testing.T) {
	relay, child := os.LookupEnv(pourChild)
	if !child {
		return
	}
	block := make([]byte, 256<<10)
	origin := listen(t, "tcp")
	conns := make([]net.Conn, pourClients)
	var serving sync.WaitGroup
	defer func() {
		_ = origin.Close()
		for _, conn := range conns {
			_ = conn.Close() // so that the relay closes the others
		}
		serving.Wait()
	}()
	serving.Go(func() {
		for {
			conn, err := origin.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				var asked [8]byte
				for {
					if _, err := io.ReadFull(conn, asked[:]); err != nil {
						return
					}
					for left := int(binary.LittleEndian.Uint64(asked[:])); left > 0; left -= min(left, len(block)) {
						_, _ = conn.Write(block[:min(left, len(block))])
					}
				}
			})
		}
	})
	_, _ = os.Stdout.WriteString(origin.Addr().String() + "\n")
	var size, rounds int
	for {
		if _, err := fmt.Fscan(os.Stdin, &size, &rounds); err != nil {
			return
		}
		done := make(chan error)
		for i := range conns {
			if conns[i] == nil {
				conns[i], _ = net.Dial("tcp", relay)
			}
			go func() {
				var asked [8]byte
				binary.LittleEndian.PutUint64(asked[:], uint64(size))
				buffer := make([]byte, 256<<10)
				for range rounds {
					_, _ = conns[i].Write(asked[:])
					for left := size; left > 0; {
						n, err := conns[i].Read(buffer)
						if err != nil {
							done <- err
							return
						}
						left -= n
					}
				}
				done <- nil
			}()
		}
		for range conns {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		_, _ = os.Stdout.WriteString("done\n")
	}
}

// BenchmarkPipe moves answers of several sizes from one connection to another,
// through a pipe and through a buffer. Its peers are another process. It tells
// what this one spends of processors, for each answer.
func BenchmarkPipe(b *testing.B) {
	for _, k := range drivers() {
		for _, size := range []int{16 << 10, 64 << 10, 100 << 10, 256 << 10, 1 << 20, 16 << 20} {
			for _, way := range []string{"buffer", "pipe"} {
				b.Run(fmt.Sprintf("%s/%dKiB/%s", k.name, size>>10, way), func(b *testing.B) { pour(b, k, size, way) })
			}
		}
	}
}

func pour(b *testing.B, k kind, size int, way string) {
	b.Helper()
	driver, err := k.start(slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Stop()
	listening := listen(b, "tcp")
	process, order, output := child(b, "TestPourPeers", pourChild, listening.Addr().String())
	var origin string
	if _, err := fmt.Fscanln(output, &origin); err != nil {
		b.Fatal(err)
	}
	if _, err := driver.Listen(listening, pourer(origin, way == "pipe"), ListenOptions{}); err != nil {
		b.Fatal(err)
	}
	rounds := max(1, (8<<20)/size)
	request := func() {
		var line string
		_, _ = fmt.Fprintln(order, size, rounds)
		if _, err := fmt.Fscanln(output, &line); err != nil || !strings.HasPrefix(line, "done") {
			b.Fatalf("the peers say %q, %v", line, err)
		}
	}
	request() // connects
	cpu, _ := spent()
	for b.Loop() {
		request()
	}
	cpuAfter, _ := spent()
	answers := float64(b.N * pourClients * rounds)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(cpuAfter-cpu)/answers/1000, "cpu-µs/answer")
	b.ReportMetric(float64(cpuAfter-cpu)/answers/1000/(float64(size)/(1<<20)), "cpu-µs/MiB")
	_ = order.Close()
	_, _ = io.Copy(io.Discard, output)
	if err := process.Wait(); err != nil {
		b.Errorf("the peers: %v", err)
	}
}

// pourer relays answers.
func pourer(origin string, piped bool) Handler {
	return func(c Conn) (bool, time.Time) {
		upstream, ok := c.Data().(Conn)
		if !ok {
			var err error
			if upstream, err = c.Executor().Dial(context.Background(), "tcp", origin, time.Time{}); err != nil {
				return false, time.Time{}
			}
			c.SetData(upstream)
		}
		var asked [8]byte
		n, err := c.Read(asked[:])
		if err == nil {
			_, err = upstream.Write(asked[:n])
		}
		if err == nil {
			err = carry(c, upstream, int64(binary.LittleEndian.Uint64(asked[:])), piped)
		}
		if err != nil {
			_ = upstream.Close()
		}
		return err == nil, time.Time{}
	}
}

// carry moves n bytes.
func carry(to, from Conn, n int64, piped bool) error {
	if piped {
		p, err := to.Executor().NewPipe()
		if err != nil {
			return err
		}
		defer p.Close()
		for left := n; left > 0; {
			m, err := from.ReadInto(p, left)
			if err == nil {
				_, err = to.WriteFrom(p)
			}
			if err != nil {
				return err
			}
			left -= int64(m)
		}
		return nil
	}
	buffer := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buffer)
	for left := n; left > 0; {
		m, err := from.Read(buffer[:min(left, bufferBytes)])
		if err == nil {
			_, err = to.Write(buffer[:m])
		}
		if err != nil {
			return err
		}
		left -= int64(m)
	}
	return nil
}

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}
