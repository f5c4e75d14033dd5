package server

import (
	"errors"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// sender sends a byte at a time, as its script says, and keeps to a deadline
// as a socket does.
type sender struct {
	script   []pause // what comes before each byte
	deadline time.Time
	past     chan struct{} // closed when the deadline is put into the past
}

type pause struct {
	wait  time.Duration
	bytes int
}

func (s *sender) setDeadline(deadline time.Time) error {
	s.deadline = deadline
	if deadline.Before(time.Now()) {
		close(s.past)
	}
	return nil
}

func (s *sender) Read(p []byte) (int, error) {
	if len(s.script) == 0 {
		return 0, io.EOF
	}
	step := s.script[0]
	s.script = s.script[1:]
	arrives := time.NewTimer(step.wait)
	defer arrives.Stop()
	var late <-chan time.Time
	if !s.deadline.IsZero() {
		timer := time.NewTimer(time.Until(s.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-arrives.C:
		return min(step.bytes, len(p)), nil
	case <-late:
	case <-s.past:
	}
	return 0, os.ErrDeadlineExceeded
}

func slowBody(s *sender, rate int64) *body {
	s.past = make(chan struct{})
	b := &body{inner: s, deadline: s.setDeadline, gone: func() bool { return false }, trailers: func() message.Fields { return nil }, pace: pace{rate, standard().bodyGrace, standard().bodyCredit}}
	b.over.L = &b.mu
	return b
}

// slowContent is the same with the engine.
func slowContent(s *sender, rate int64) *content {
	s.past = make(chan struct{})
	length := int64(0)
	for _, step := range s.script {
		length += int64(step.bytes)
	}
	conn := slowConn{sender: s}
	e := &exchange{client: &client{conn: conn, listener: &Listener{limits: standard()}}}
	e.Listener = &model.Listener{}
	e.framing.Body, e.framing.Length = wire.Sized, length
	e.content.exchange, e.content.in = e, &input{conn: conn}
	e.content.begin(&model.Listener{Timeouts: model.ListenerTimeouts{MinBodyRate: rate}}, wire.Limits{}, 0)
	return &e.content
}

// slowConn is the sender's connection.
type slowConn struct {
	netloop.Conn
	*sender
}

func (c slowConn) Read(p []byte) (int, error)         { return c.sender.Read(p) }
func (c slowConn) SetReadDeadline(deadline time.Time) { c.sender.deadline = deadline }
func (slowConn) WatchHangup(func(), bool)             {}

func repeat(n int, step pause) []pause {
	steps := make([]pause, n)
	for i := range steps {
		steps[i] = step
	}
	return steps
}

func TestMinBodyRate(t *testing.T) {
	const rate = 240
	tests := []struct {
		name    string
		script  []pause
		rate    int64
		working time.Duration // of the reader between reads
		slow    bool
		took    time.Duration
	}{
		{"just fast enough, for long", repeat(600, pause{time.Second, 240}), rate, 0, false, 600 * time.Second},
		{"a little too slow", repeat(600, pause{time.Second, 200}), rate, 0, true, 0},
		{"nothing for the time of grace", []pause{{4900 * time.Millisecond, 1}}, rate, 0, false, 4900 * time.Millisecond},
		{"nothing for longer", []pause{{time.Hour, 1}}, rate, 0, true, 5 * time.Second},
		{"a byte a second", repeat(100, pause{time.Second, 1}), rate, 0, true, 5*time.Second + 5*time.Second/240},
		{"fast sending earns waiting", []pause{{0, 2400}, {14 * time.Second, 1}}, rate, 0, false, 14 * time.Second},
		{"but not without end", []pause{{0, 1 << 20}, {time.Hour, 1}}, rate, 0, true, 60 * time.Second},
		{"a slow reader is not the sender's fault", repeat(100, pause{0, 1}), rate, time.Minute, false, 0},
		{"no rate", []pause{{time.Hour, 1}}, 0, 0, false, time.Hour},
		{"the last bytes come as the time is up", []pause{{5 * time.Second, 0}, {0, 1}}, rate, 0, true, 5 * time.Second},
	}
	for _, test := range tests {
		readBody := func(t *testing.T, b io.Reader, verdict func() error) {
			t.Helper()
			begin := time.Now()
			var err error
			buffer := make([]byte, 1<<20)
			for err == nil {
				if _, err = b.Read(buffer); err == nil {
					time.Sleep(test.working)
				}
			}
			var e *pipeline.Error
			if slow := errors.As(err, &e); slow != test.slow || slow && (e.Word != pipeline.RequestTimeout || !e.Close) {
				t.Errorf("it ended with %v", err)
			}
			if took := time.Since(begin); test.took > 0 && took.Round(100*time.Millisecond) != test.took.Round(100*time.Millisecond) {
				t.Errorf("it took %v, want %v", took, test.took)
			}
			if _, again := b.Read(buffer); !errors.Is(again, err) {
				t.Errorf("then came %v", again)
			}
			if verdict := verdict(); test.slow && !errors.Is(verdict, err) || !test.slow && verdict != nil {
				t.Errorf("the verdict is %v", verdict)
			}
		}
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := slowBody(&sender{script: test.script}, test.rate)
				readBody(t, b, b.verdict)
			})
			synctest.Test(t, func(t *testing.T) {
				b := slowContent(&sender{script: test.script}, test.rate)
				readBody(t, b, b.failure)
			})
		})
	}
}

// net/http ends the request's context before Read returns: the cause must be
// known by then.
func TestTheVerdictComesBeforeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowBody(&sender{script: []pause{{time.Hour, 1}}}, 240)
		var verdict error
		inner := b.inner
		b.inner = readerFunc(func(p []byte) (int, error) {
			if early := b.verdict(); early != nil {
				t.Errorf("a verdict before its time: %v", early)
			}
			n, err := inner.Read(p)
			verdict = b.verdict()
			return n, err
		})
		_, _ = b.Read(make([]byte, 1))
		var e *pipeline.Error
		if !errors.As(verdict, &e) || e.Word != pipeline.RequestTimeout {
			t.Errorf("%v", verdict)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFinishBreaksARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowBody(&sender{script: []pause{{time.Hour, 1}}}, 0)
		read := make(chan error)
		go func() {
			_, err := b.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		if err := b.Close(); err != nil { // which breaks nothing
			t.Error(err)
		}
		synctest.Wait()
		select {
		case err := <-read:
			t.Errorf("Close ended the reading: %v", err)
		default:
		}
		done := make(chan bool, 1)
		go func() { done <- b.finish(past()) }()
		if err := <-read; !errors.Is(err, errBodyOver) {
			t.Errorf("%v", err)
		}
		if !<-done {
			t.Error("nothing was interrupted")
		}
		if _, err := b.Read(nil); !errors.Is(err, errBodyOver) {
			t.Errorf("%v", err)
		}
		if b.failure() != nil || b.verdict() != nil {
			t.Error("it counts as a failure")
		}
	})
}

func TestReadingTwiceAtOnceIsAFault(t *testing.T) {
	b, c := slowBody(&sender{}, 0), slowContent(&sender{script: []pause{{0, 1}}}, 0)
	b.reading, c.reading = true, true
	for name, body := range map[string]io.Reader{"the adapter's": b, "the engine's": c} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			_, _ = body.Read(make([]byte, 1))
		}()
	}
}
