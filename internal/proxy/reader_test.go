package proxy

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// piped is a client's body that can go into a pipe.
type piped struct {
	io.Reader
	into int // calls of ReadInto
	n    int // what that gives
	err  error
}

func (p *piped) ReadInto(*netloop.Pipe, int64) (int, error) {
	p.into++
	return p.n, p.err
}

func (p *piped) Close() error { return nil }

// uploadOf is the body of an exchange as its first attempt reads it.
func uploadOf(source io.ReadCloser, length int64, retry *model.Retry) *forward {
	f := &forward{destination: &destination{route: &model.Route{Retry: retry}}, uploading: source, left: length}
	f.request = message.Request{Method: "PUT", Body: source, Length: length}
	f.x = pipeline.NewExchange(context.Background(), &f.request, &model.Listener{}, netip.AddrPort{}, time.Time{})
	f.request.Body = (*upload)(f)
	f.keepBody()
	return f
}

// TestPipesOfUploads: what is not kept goes from socket to socket, and what is kept
// does not.
func TestPipesOfUploads(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		retry  *model.Retry
		read   int // before, by Read
		piped  bool
	}{
		"no retries":              {1 << 20, nil, 0, true},
		"one attempt":             {1 << 20, &model.Retry{Attempts: 1, Body: 100}, 0, true},
		"too large to be kept":    {101, &model.Retry{Attempts: 2, Body: 100}, 0, true},
		"kept":                    {100, &model.Retry{Attempts: 2, Body: 100}, 0, false},
		"unknown, at first":       {message.Unknown, &model.Retry{Attempts: 2, Body: 100}, 99, false},
		"unknown, kept to a byte": {message.Unknown, &model.Retry{Attempts: 2, Body: 100}, 100, true},
		"unknown, past that":      {message.Unknown, &model.Retry{Attempts: 2, Body: 100}, 200, true},
	} {
		source := &piped{Reader: strings.NewReader(strings.Repeat("x", 1000)), n: 7}
		f := uploadOf(source, c.length, c.retry)
		body := f.body()
		if _, err := io.ReadFull(body, make([]byte, c.read)); err != nil {
			t.Fatal(err)
		}
		n, err := body.(netloop.PipeReader).ReadInto(nil, 1000) //nolint:forcetypeassert // else it fails
		if c.piped && (n != 7 || err != nil || source.into != 1) || !c.piped && (!errors.Is(err, errors.ErrUnsupported) || source.into != 0) {
			t.Errorf("%s: %d, %v after %d calls", name, n, err, source.into)
		}
		if c.piped && f.kept.rewind() == (c.retry != nil && c.retry.Attempts > 1) {
			t.Errorf("%s: it can be sent again, or cannot: %v", name, f.kept != nil)
		}
	}
}

// TestPipeThatFails: what it cannot do is left to Read, and its errors stay.
func TestPipeThatFails(t *testing.T) {
	retry := &model.Retry{Attempts: 2}
	source := &piped{Reader: strings.NewReader("hello"), err: errors.ErrUnsupported}
	f := uploadOf(source, 5, retry)
	if _, err := f.kept.reader.ReadInto(nil, 5); !errors.Is(err, errors.ErrUnsupported) || !f.kept.rewind() {
		t.Errorf("%v; nothing was taken, so that it can be sent again", err)
	}
	if text, err := io.ReadAll(io.LimitReader(f.body(), 5)); string(text) != "hello" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	broken := errors.New("broken")
	f = uploadOf(&piped{err: broken}, 5, retry)
	if _, err := f.kept.reader.ReadInto(nil, 5); !errors.Is(err, broken) || f.kept.rewind() {
		t.Errorf("%v; the client has failed, and cannot be asked again", err)
	}
	f = uploadOf(io.NopCloser(strings.NewReader("hello")), 5, retry)
	if _, err := f.kept.reader.ReadInto(nil, 5); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v of a body that knows no pipes", err)
	}
}

// TestReadersOfEarlierAttempts get nothing, and close nothing.
func TestReadersOfEarlierAttempts(t *testing.T) {
	f := uploadOf(&piped{Reader: strings.NewReader("hello world")}, 11, &model.Retry{Attempts: 3, Body: 100})
	first := f.kept.reader
	if n, err := first.Read(make([]byte, 5)); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	if !f.kept.rewind() {
		t.Fatal("it cannot be sent again")
	}
	for range 2 {
		if n, err := first.Read(make([]byte, 5)); n != 0 || !errors.Is(err, errBodyOver) {
			t.Errorf("it reads %d, %v", n, err)
		}
		if _, err := first.ReadInto(nil, 5); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("it pipes: %v", err)
		}
		if err := first.Close(); err != nil || f.kept.shut {
			t.Errorf("it closes the client's body: %v", err)
		}
	}
	if got := message.Buffered(f.body()); got != 5 {
		t.Errorf("%d bytes are there", got)
	}
	if text, err := io.ReadAll(f.body()); string(text) != "hello world" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	f.kept.settle(false)
	if f.kept.kept != nil {
		t.Error("what nobody will want is kept")
	}
	if err := f.kept.reader.Close(); err != nil || !f.kept.shut {
		t.Errorf("the last one does not close the client's body: %v", err)
	}
}

// TestReadIsTakenOver: what the client gives to one who was left behind in reading it
// comes to the next one, which waits for it.
func TestReadIsTakenOver(t *testing.T) {
	source, client := io.Pipe()
	f := uploadOf(source, message.Unknown, &model.Retry{Attempts: 3, Body: 100})
	first := f.kept.reader
	left := make(chan error)
	go func() {
		_, err := first.Read(make([]byte, 100))
		left <- err
	}()
	reading := func() bool {
		f.kept.mu.Lock()
		defer f.kept.mu.Unlock()
		return f.kept.reading
	}
	for !reading() {
		runtime.Gosched()
	}
	if !f.kept.rewind() {
		t.Fatal("it cannot be sent again")
	}
	go func() {
		_, _ = io.WriteString(client, "hello")
		_ = client.Close()
	}()
	if text, err := io.ReadAll(f.body()); string(text) != "hello" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if err := <-left; !errors.Is(err, errBodyOver) {
		t.Errorf("the first one got %v", err)
	}
}

// ending is a body that is at its end once it is closed, and not before.
type ending chan struct{}

func (e ending) Read([]byte) (int, error) {
	<-e
	return 0, io.EOF
}

func (e ending) Close() error {
	close(e)
	return nil
}

// TestReadForOneAttemptAlone is no other's: what was closed meanwhile is not at its
// end, whatever it says.
func TestReadForOneAttemptAlone(t *testing.T) {
	f := uploadOf(make(ending), 1000, &model.Retry{Attempts: 3, Body: 100})
	read := make(chan error)
	go func() {
		_, err := f.body().Read(make([]byte, 10))
		read <- err
	}()
	reading := func() bool {
		f.kept.mu.Lock()
		defer f.kept.mu.Unlock()
		return f.kept.reading
	}
	for !reading() {
		runtime.Gosched()
	}
	if f.kept.rewind() {
		t.Error("it is sent again while it is read")
	}
	if err := f.body().Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err == nil {
		t.Error("it has read something")
	}
	if f.kept.rewind() {
		t.Error("it is sent again, and is not whole")
	}
}
