//go:build unix

package netloop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pong answers 64 bytes until the peer leaves, as a task that stays.
func pong(c Conn) (bool, time.Time) {
	var buffer [64]byte
	for {
		n, err := c.Read(buffer[:])
		if err != nil {
			return false, time.Time{}
		}
		if _, err := c.Write(buffer[:n]); err != nil {
			return false, time.Time{}
		}
	}
}

const (
	pingChild  = "NETLOOP_PING" // the address, and how many connections
	perRequest = 64             // exchanges of each connection in one go
)

// TestPingClients is the process of BenchmarkPingPong's clients.
func TestPingClients(t *testing.T) {
	address, count, child := strings.Cut(os.Getenv(pingChild), " ")
	if !child {
		return
	}
	clients, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, clients)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var running sync.WaitGroup
		for _, conn := range conns {
			running.Go(func() {
				var buffer [64]byte
				for range perRequest {
					_, _ = conn.Write(buffer[:])
					if n, err := conn.Read(buffer[:]); n != len(buffer) || err != nil {
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

// ping answers 64 bytes and rests.
func ping(c Conn) (bool, time.Time) {
	var buffer [128]byte
	n, err := c.Read(buffer[:])
	if err == nil {
		_, err = c.Write(buffer[:n])
	}
	return err == nil, time.Time{}
}

// BenchmarkPingPong exchanges 64 bytes with clients in another process, by
// tasks that stay and by ones that rest between any two exchanges. Beside the
// time it tells what this process spends: processor time and allocations. An
// operation is 64 exchanges of each connection.
func BenchmarkPingPong(b *testing.B) {
	for _, k := range drivers() {
		for _, clients := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%s/%d/stays", k.name, clients), func(b *testing.B) { pingPong(b, k, clients, pong) })
			b.Run(fmt.Sprintf("%s/%d/rests", k.name, clients), func(b *testing.B) { pingPong(b, k, clients, ping) })
		}
	}
}

func pingPong(b *testing.B, k kind, clients int, handler Handler) {
	b.Helper()
	driver, err := k.start(slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer driver.Stop()
	listening := listen(b, "tcp")
	if _, err := driver.Listen(listening, handler, ListenOptions{}); err != nil {
		b.Fatal(err)
	}
	process, order, lines := child(b, "TestPingClients", pingChild, fmt.Sprintf("%s %d", listening.Addr(), clients))
	request := func() {
		_, _ = io.WriteString(order, "go\n")
		if line, err := lines.ReadString('\n'); line != "done\n" {
			b.Fatalf("the clients say %q, %v", line, err)
		}
	}
	request() // connects
	cpu, allocations := spent()
	for b.Loop() {
		request()
	}
	cpuAfter, allocationsAfter := spent()
	exchanges := float64(b.N * clients * perRequest)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/exchanges, "ns/exchange")
	b.ReportMetric(float64(cpuAfter-cpu)/exchanges, "cpu-ns/exchange")
	b.ReportMetric(float64(allocationsAfter-allocations)/exchanges, "allocs/exchange")
	_ = order.Close()
	_, _ = io.Copy(io.Discard, lines)
	if err := process.Wait(); err != nil {
		b.Errorf("the clients: %v", err)
	}
}

// spent is what this process has spent: nanoseconds of processors, and
// allocations.
func spent() (cpu int64, allocations uint64) {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return usage.Utime.Nano() + usage.Stime.Nano(), memory.Mallocs
}

// TestNoAllocation has nothing allocate that is done for every exchange.
func TestNoAllocation(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		go pingBack(peer)
		buffer := make([]byte, 64)
		deadline := time.Now().Add(time.Hour)
		hungUp := func() { t.Error("nobody has left") }
		to, sink := pair(t, x, "tcp")
		defer func() { _ = to.Close() }()
		go drain(sink)
		pipe, err := x.NewPipe()
		piped := err == nil // not on every system
		if piped {
			defer pipe.Close()
		}
		for name, step := range map[string]func() error{
			"exchange": func() error {
				deadline = deadline.Add(time.Second)
				c.SetReadDeadline(deadline)
				c.SetWriteDeadline(deadline)
				if _, err := c.Write(buffer); err != nil {
					return err
				}
				_, err := c.Read(buffer)
				return err
			},
			"rest": func() error { // what waits, and what does not
				if _, err := c.Write(buffer); err != nil {
					return err
				}
				err := errors.Join(c.Readable(), c.Readable())
				if _, readErr := c.Read(buffer); readErr != nil {
					return readErr
				}
				return err
			},
			"stale": func() error {
				if c.Stale() {
					return errors.New("it is stale")
				}
				return nil
			},
			"splice": func() error {
				if !piped {
					return nil
				}
				if _, err := c.Write(buffer); err != nil {
					return err
				}
				_, readErr, writeErr := splicer{to, c, pipe}.move(int64(len(buffer)))
				return errors.Join(readErr, writeErr)
			},
			"watch": func() error {
				c.WatchHangup(hungUp, true)
				c.WatchHangup(nil, false)
				return nil
			},
		} {
			got := testing.AllocsPerRun(300, func() {
				if err := step(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			if got != 0 {
				t.Errorf("%s: %v allocations", name, got)
			}
		}
	})
}

// pingBack answers with what comes.
func pingBack(conn net.Conn) {
	for buffer := make([]byte, 64); ; {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		_, _ = conn.Write(buffer[:n])
	}
}

// BenchmarkStep is what an exchange does besides reading and writing.
func BenchmarkStep(b *testing.B) {
	for _, k := range drivers() {
		bed := newBed(b, k)
		bed.task(b, func(x Executor) {
			c, peer := pair(b, x, "tcp")
			defer func() { _ = c.Close() }()
			hungUp, deadline := func() {}, time.Now().Add(time.Hour)
			for name, step := range map[string]func(){
				"watch": func() { c.WatchHangup(hungUp, true); c.WatchHangup(nil, false) },
				"stale": func() { _ = c.Stale() },
				"pipe": func() {
					if p, err := x.NewPipe(); err == nil {
						p.Close()
					}
				},
				"deadline": func() { c.SetReadDeadline(deadline); c.SetReadDeadline(time.Time{}) },
			} {
				b.Run(k.name+"/"+name, func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						step()
					}
				})
			}
			_, _ = peer.Write([]byte("x"))
			b.Run(k.name+"/readable", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_ = c.Readable()
				}
			})
		})
	}
}
