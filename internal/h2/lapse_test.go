package h2_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/h2"
	"sluice/internal/waittest"
)

// refusal is what Options.Refused was told.
type refusal struct {
	line string
	why  error
}

// refusing serves with a handler, and gathers what is refused.
func refusing(f func(w http.ResponseWriter, r *http.Request)) (h2.Options, chan refusal) {
	refused := make(chan refusal, 10)
	options := handler(f)
	options.Refused = func(r *http.Request, why error) {
		refused <- refusal{r.Method + " " + r.Host + " " + r.RequestURI + " " + r.Header.Get("User-Agent"), why}
	}
	return options, refused
}

func (r refusal) is(t *testing.T, line string, rule *h2.ProtocolError) {
	t.Helper()
	if r.line != line || !errors.Is(r.why, rule) {
		t.Errorf("got %q because of %v, want %q and %v", r.line, r.why, line, rule)
	}
}

// TestRefused tells of every request that no handler sees, once, with what came of
// it.
func TestRefused(t *testing.T) {
	options, refused := refusing(echo)
	s := serve(t, options, nil)
	c := s.dial(t)
	const whole = "GET a.example / "
	for i, tc := range []struct {
		lines []string
		line  string
		rule  *h2.ProtocolError
	}{
		{get("user-agent: a", "X-Up: 1"), whole + "a", h2.ErrFieldName},
		{get("connection: close"), whole, h2.ErrConnField},
		{without(get(), ":scheme"), whole, h2.ErrPseudoField},
		{append(without(get(), ":path"), ":path: /a\nb"), "GET a.example  ", h2.ErrFieldValue},
		{append(without(get(), ":path"), "user-agent: a", ":path: /"), "GET a.example  ", h2.ErrPseudoField},
		{get("content-length: 5"), whole, h2.ErrLength},
	} {
		id := uint32(2*i + 1)
		c.open(id, true, tc.lines)
		if a := c.answer(id); a.reset == nil {
			t.Errorf("%v: %v", tc.lines, a)
		}
		(<-refused).is(t, tc.line, tc.rule)
	}
	c.open(99, true, get())
	if a := c.answer(99); a.status != "200" {
		t.Fatal(a)
	}
	_ = c.conn.Close()
	_ = s.end(t)
	if len(refused) > 0 {
		t.Errorf("more than that: %v", <-refused)
	}
}

// TestRefusedWithoutAHandler tells of those that none was free for: past the
// number of streams, and taken back before.
func TestRefusedWithoutAHandler(t *testing.T) {
	let := make(chan struct{})
	options, refused := refusing(func(w http.ResponseWriter, r *http.Request) {
		<-let // whatever the client does
		echo(w, r)
	})
	options.MaxConcurrentStreams = 1
	s := serve(t, options, nil)
	c := s.dial(t)
	c.open(1, true, get())
	c.open(3, true, get("X-Up: 1"))
	(<-refused).is(t, "GET a.example / ", h2.ErrRefused)
	c.must(c.WriteRSTStream(1, http2.ErrCodeCancel))
	c.open(5, true, get())
	c.must(c.WriteRSTStream(5, http2.ErrCodeCancel))
	var reset *h2.ResetError
	if r := <-refused; r.line != "GET a.example / " || !errors.As(r.why, &reset) || reset.Code != http2.ErrCodeCancel {
		t.Errorf("%+v", r)
	}
	c.open(7, true, get())
	server := s.each()[0]
	waittest.Until(t, "a stream that waits", func() bool { return server.Active() == 2 })
	server.Close()
	if r := <-refused; !errors.Is(r.why, h2.ErrClosed) {
		t.Errorf("%+v", r)
	}
	close(let)
	_ = s.end(t)
	if len(refused) > 0 {
		t.Errorf("more than that: %v", <-refused)
	}
}

// TestRefusedInTheMiddle tells of a request whose header block does not come whole.
func TestRefusedInTheMiddle(t *testing.T) {
	first := func(c *raw) {
		c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(get()...)}))
	}
	for name, tc := range map[string]struct {
		do   func(c *raw)
		line string
		rule *h2.ProtocolError // nil: the client left
	}{
		"it does not come":   {first, "GET a.example / ", h2.ErrHeaderTimeout},
		"it is interrupted":  {func(c *raw) { first(c); c.must(c.WritePing(false, [8]byte{})) }, "GET a.example / ", h2.ErrFrame},
		"it cannot be read":  {func(c *raw) { first(c); c.must(c.WriteContinuation(1, true, []byte{0xff, 0x7f})) }, "GET a.example / ", h2.ErrCompression},
		"it is cut off":      {func(c *raw) { first(c); c.must(c.WriteContinuation(1, true, []byte{0, 5, 'a'})) }, "GET a.example / ", h2.ErrCompression},
		"the client is gone": {func(c *raw) { first(c); _ = c.conn.Close() }, "GET a.example / ", nil},
		"it is of trailers":  {func(c *raw) { c.open(1, false, post()); first(c); _ = c.conn.Close() }, "", nil},
		"it is of no request": {func(c *raw) {
			c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, BlockFragment: c.encode(get()...)}))
			_ = c.conn.Close()
		}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			options, refused := refusing(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			if tc.rule == h2.ErrHeaderTimeout {
				options.ReadHeaderTimeout = 500 * time.Millisecond
			}
			s := serve(t, options, nil)
			c := s.dial(t)
			tc.do(c)
			if tc.rule != nil {
				rule(t, s.end(t), tc.rule)
				(<-refused).is(t, tc.line, tc.rule)
			} else {
				_ = s.end(t)
			}
			switch {
			case tc.rule == nil && tc.line != "":
				if r := <-refused; r.line != tc.line || ruleOf(r.why) != nil {
					t.Errorf("%+v", r)
				}
			case len(refused) > 0:
				t.Errorf("%+v", <-refused)
			}
		})
	}
}
