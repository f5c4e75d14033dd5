package server

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"sluice/internal/netloop"
)

// reluctant is a connection that takes as much of each write as its script says,
// until the deadline.
type reluctant struct {
	netloop.Conn
	takes     []int
	end       error
	got       []byte
	deadlines int
}

func (r *reluctant) SetWriteDeadline(time.Time) { r.deadlines++ }

func (r *reluctant) Executor() netloop.Executor { return clockwork{} }

// clockwork is an executor that tells the time.
type clockwork struct{ netloop.Executor }

func (clockwork) Now() time.Time { return time.Now() }

func (r *reluctant) Control(func(uintptr)) error { return net.ErrClosed }

func (r *reluctant) Write(p []byte) (int, error) {
	if len(r.takes) == 0 {
		r.got = append(r.got, p...)
		return len(p), nil
	}
	n := r.takes[0]
	r.takes = r.takes[1:]
	r.got = append(r.got, p[:n]...)
	return n, r.end
}

// As long as the client takes a byte now and then, writing goes on, each time
// with the whole time.
func TestSendGoesOnWhileTheClientTakesSomething(t *testing.T) {
	tests := []struct {
		name      string
		takes     []int
		end       error
		idle      time.Duration
		want      string
		fails     bool
		deadlines int
	}{
		{"all", nil, nil, time.Second, "0123456789", false, 1},
		{"a byte now and then", []int{1, 1, 5}, os.ErrDeadlineExceeded, time.Second, "0123456789", false, 4},
		{"then nothing", []int{1, 0, 0, 0, 0}, os.ErrDeadlineExceeded, time.Second, "0", true, 5},
		{"a broken connection", []int{3}, io.ErrClosedPipe, time.Second, "012", true, 1},
		{"without a bound", nil, nil, 0, "0123456789", false, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			conn := &reluctant{takes: test.takes, end: test.end}
			e := &exchange{client: &client{conn: conn}}
			_, err := e.send([]byte("0123456789"), test.idle)
			if string(conn.got) != test.want || test.fails != (err != nil) || err != nil && !errors.Is(err, test.end) || conn.deadlines != test.deadlines {
				t.Errorf("%q, %v, %d deadlines", conn.got, err, conn.deadlines)
			}
		})
	}
}

func TestAgesDiffer(t *testing.T) {
	const age, times = time.Hour, 1000
	least, most := age, age
	for range times {
		got := jittered(age)
		least, most = min(least, got), max(most, got)
	}
	if least < age*9/10 || most > age*11/10 || least > age*92/100 || most < age*108/100 {
		t.Errorf("from %v to %v", least, most)
	}
}

// The date is made once a second.
func TestClock(t *testing.T) {
	var c clock
	for begin := time.Now(); ; begin = time.Now() {
		first := c.date()
		again := c.date()
		if begin.Unix() != time.Now().Unix() {
			continue // a second has passed meanwhile
		}
		if first != again || first != date(begin) {
			t.Errorf("%q and %q, want %q", first, again, date(begin))
		}
		break
	}
	c.now.Store(&moment{1, "old"})
	if got := c.date(); got == "old" {
		t.Error("it has stopped")
	}
}
