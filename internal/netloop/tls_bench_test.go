//go:build unix

package netloop

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tlsPingChild is pingChild over TLS; 0 exchanges in one go are none: the
// connections rest.
const tlsPingChild = "NETLOOP_TLS_PING"

// TestTLSPingClients is the process of the benchmarks' clients.
func TestTLSPingClients(t *testing.T) {
	fields := strings.Fields(os.Getenv(tlsPingChild))
	if len(fields) == 0 {
		return
	}
	clients, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, clients)
	for i := range conns {
		conn, err := tls.Dial("tcp", fields[0], &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var running sync.WaitGroup
		for _, conn := range conns {
			running.Go(func() {
				var buffer [64]byte
				for range perRequest {
					_, _ = conn.Write(buffer[:])
					if n, err := io.ReadFull(conn, buffer[:]); err != nil {
						t.Errorf("read %d, %v", n, err)
						return
					}
				}
			})
		}
		running.Wait()
		_, _ = os.Stdout.WriteString("done\n")
	}
}

// tlsClients are the clients of a server, which do what they are ordered to.
type tlsClients struct {
	b     testing.TB
	child *exec.Cmd
	order io.WriteCloser
	lines *bufio.Reader
}

func newTLSClients(b testing.TB, address net.Addr, clients int) *tlsClients {
	b.Helper()
	c := &tlsClients{b: b}
	c.child, c.order, c.lines = child(b, "TestTLSPingClients", tlsPingChild, fmt.Sprintf("%s %d", address, clients))
	return c
}

// exchange has each of them make perRequest exchanges.
func (c *tlsClients) exchange() {
	c.b.Helper()
	_, _ = io.WriteString(c.order, "go\n")
	if line, err := c.lines.ReadString('\n'); line != "done\n" {
		c.b.Fatalf("the clients say %q, %v", line, err)
	}
}

func (c *tlsClients) end() {
	c.b.Helper()
	_ = c.order.Close()
	_, _ = io.Copy(io.Discard, c.lines)
	if err := c.child.Wait(); err != nil {
		c.b.Errorf("the clients: %v", err)
	}
}

// tlsPing answers 64 bytes and rests, or stays.
func tlsPing(config *tls.Config, stays bool) Handler {
	return func(c Conn) (bool, time.Time) {
		own, ok := c.Data().(*TLS)
		if !ok {
			own = ServeTLS(c, nil, config)
			if own.Handshake(time.Time{}) != nil {
				return false, time.Time{}
			}
			c.SetData(own)
		}
		var buffer [128]byte
		for {
			n, err := own.Read(buffer[:])
			if err == nil {
				_, err = own.Write(buffer[:n])
			}
			switch {
			case err != nil:
				return false, time.Time{}
			case !stays && !own.Pending():
				return true, time.Time{}
			}
		}
	}
}

// tlsServers are what is compared: both drivers, and crypto/tls by itself.
func tlsServers(b testing.TB, stays bool) map[string]func(listening net.Listener) (stop func()) {
	b.Helper()
	server, _ := configs(b)
	servers := map[string]func(listening net.Listener) (stop func()){
		"crypto": func(listening net.Listener) (stop func()) {
			var running sync.WaitGroup
			running.Go(func() {
				for {
					raw, err := listening.Accept()
					if errors.Is(err, net.ErrClosed) {
						return
					}
					running.Go(func() {
						conn := tls.Server(raw, server)
						defer func() { _ = conn.Close() }()
						pingBack(conn)
					})
				}
			})
			return func() { _ = listening.Close(); running.Wait() }
		},
	}
	for _, k := range drivers() {
		servers[k.name] = func(listening net.Listener) (stop func()) {
			driver, err := k.start(slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := driver.Listen(listening, tlsPing(server, stays), ListenOptions{}); err != nil {
				b.Fatal(err)
			}
			return driver.Stop
		}
	}
	return servers
}

// BenchmarkTLSPingPong is BenchmarkPingPong over TLS, beside crypto/tls alone.
func BenchmarkTLSPingPong(b *testing.B) {
	for _, stays := range []bool{true, false} {
		for name, serve := range tlsServers(b, stays) {
			if name == "crypto" && !stays {
				continue
			}
			for _, clients := range []int{1, 64, 256} {
				b.Run(fmt.Sprintf("%s/%d/stays=%v", name, clients, stays), func(b *testing.B) {
					listening := listen(b, "tcp")
					stop := serve(listening)
					c := newTLSClients(b, listening.Addr(), clients)
					c.exchange() // connects
					cpu, allocations := spent()
					for b.Loop() {
						c.exchange()
					}
					cpuAfter, allocationsAfter := spent()
					exchanges := float64(b.N * clients * perRequest)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(cpuAfter-cpu)/exchanges, "cpu-ns/exchange")
					b.ReportMetric(float64(allocationsAfter-allocations)/exchanges, "allocs/exchange")
					c.end()
					stop()
				})
			}
		}
	}
}

// BenchmarkTLSIdle is what a connection at rest holds, of this process's memory.
func BenchmarkTLSIdle(b *testing.B) {
	const clients = 1000
	for name, serve := range tlsServers(b, false) {
		b.Run(name, func(b *testing.B) {
			before := held()
			listening := listen(b, "tcp")
			stop := serve(listening)
			c := newTLSClients(b, listening.Addr(), clients)
			c.exchange()
			for b.Loop() { // it is not about time
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(held()-before)/clients, "bytes/connection")
			c.end()
			stop()
		})
	}
}

// held is the memory that is held: the heap in use and stacks.
func held() int64 {
	for range 3 { // what finalizers and pools let go takes more than one
		debug.FreeOSMemory() // which collects
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc + memory.StackInuse)
}

// BenchmarkTLSTransfer sends and receives a stream, a MiB at a time.
func BenchmarkTLSTransfer(b *testing.B) {
	const size = 1 << 20
	server, client := configs(b)
	for _, k := range drivers() {
		bed := newBed(b, k)
		bed.task(b, func(x Executor) {
			block := make([]byte, 32<<10)
			own, other := tlsServed(b, x, server, client)
			defer func() { _ = own.Close() }()
			go func() { _, _ = io.Copy(other, other) }()
			b.Run(k.name, func(b *testing.B) {
				b.SetBytes(2 * size)
				for b.Loop() {
					reading := beside(x, func() {
						for left := size; left > 0; {
							n, err := own.Read(make([]byte, len(block)))
							if left -= n; err != nil {
								b.Errorf("read: %v", err)
								return
							}
						}
					})
					for range size / len(block) {
						_, _ = own.Write(block)
					}
					_ = reading.Wait(time.Time{})
				}
			})
		})
	}
}

// TestTLSNoAllocation has nothing allocate that is done for every exchange, but
// for crypto/tls, which does so once for a record that it reads.
func TestTLSNoAllocation(t *testing.T) {
	if !poolsKeep() {
		t.Skip("pools keep nothing: the race detector is on")
	}
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, other := tlsServed(t, x, server, client)
		defer func() { _ = own.Close() }()
		go pingBack(other)
		buffer := make([]byte, 128) // not filled, so that nothing must be tried
		deadline := time.Now().Add(time.Hour)
		got := testing.AllocsPerRun(300, func() {
			deadline = deadline.Add(time.Second)
			own.SetReadDeadline(deadline)
			own.SetWriteDeadline(deadline)
			if _, err := own.Write(buffer[:64]); err != nil {
				t.Errorf("write: %v", err)
			}
			if _, err := own.Read(buffer); err != nil {
				t.Errorf("read: %v", err)
			}
			if own.Pending() || own.Stale() {
				t.Error("something is there")
			}
		})
		if got > 2 { // with the peer's
			t.Errorf("%v allocations", got)
		}
	})
}

// poolsKeep tells whether a sync.Pool keeps what it is given, which the race
// detector prevents now and then.
func poolsKeep() bool {
	for range 100 {
		pool := sync.Pool{New: func() any { return new(int) }}
		put := new(int)
		*put = 1
		pool.Put(put)
		if got := pool.Get().(*int); *got != 1 {
			return false
		}
	}
	return true
}
