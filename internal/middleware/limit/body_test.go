package limit_test

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// resolve returns the middleware with the options, or the problems.
func resolve(options string) (pipeline.Middleware, []string) {
	kind := limit.Body()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{match: {path: /}, respond: {status: 200}, middleware: [{body_limit: ` + options + `}]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	if result.Gateway == nil {
		return nil, problems
	}
	return kind.Build(&pipeline.Site{}, result.Gateway.Routes[0].Chain[0].Settings), problems
}

// closer is a body that tells whether it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

func TestBodyLimit(t *testing.T) {
	readers := map[string]func(io.Reader) io.Reader{
		"at once":      func(r io.Reader) io.Reader { return r },
		"byte by byte": iotest.OneByteReader,
		"with its end": iotest.DataErrReader,
		"in halves":    iotest.HalfReader,
	}
	for _, maximum := range []int{0, 1, 10, 1024, 100_000} {
		middleware, problems := resolve(fmt.Sprintf("{max: %d}", maximum))
		if problems != nil {
			t.Fatal(problems)
		}
		for _, size := range []int{0, maximum - 1, maximum, maximum + 1, 2*maximum + 3} {
			if size < 0 {
				continue
			}
			for name, reader := range readers {
				for _, told := range []bool{true, false} {
					body := &closer{Reader: reader(strings.NewReader(strings.Repeat("x", size)))}
					request := &message.Request{Protocol: message.HTTP11, Method: "POST", Body: body, Length: message.Unknown}
					if told {
						request.Length = int64(size)
					}
					x := pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
					reached, arrived := false, 0
					err := pipeline.Chain(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
						reached = true
						content, err := io.ReadAll(x.Request.Body)
						arrived = len(content)
						if err != nil {
							if n, again := x.Request.Body.Read(make([]byte, 8)); n != 0 || !errors.Is(again, err) && again.Error() != err.Error() {
								t.Errorf("after the error comes %d, %v", n, again)
							}
							return err
						}
						return x.Request.Body.Close()
					}), middleware).Serve(x)
					where := fmt.Sprintf("max %d, size %d, %s, told %v", maximum, size, name, told)
					if size <= maximum {
						if err != nil || arrived != size || !body.closed {
							t.Errorf("%s: %v after %d bytes", where, err, arrived)
						}
						continue
					}
					if e := pipeline.AsError(err); err == nil || e.Word != pipeline.BodyTooLarge || e.Status != 413 || !e.Close {
						t.Errorf("%s: %v", where, err)
					}
					if told && reached || !told && arrived != maximum {
						t.Errorf("%s: the destination was reached: %v, with %d bytes", where, reached, arrived)
					}
				}
			}
		}
	}
}

func TestBodyThatBreaks(t *testing.T) {
	middleware, _ := resolve("{max: 10}")
	broken := errors.New("the client left")
	request := &message.Request{Method: "POST", Body: io.NopCloser(io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(broken))), Length: message.Unknown}
	x := pipeline.NewExchange(t.Context(), request, &model.Listener{}, netip.AddrPort{}, time.Time{})
	err := pipeline.Chain(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		content, err := io.ReadAll(x.Request.Body)
		if string(content) != "12345" {
			t.Errorf("read %q", content)
		}
		return err
	}), middleware).Serve(x)
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestRequestWithoutABody(t *testing.T) {
	middleware, _ := resolve("{max: 0}")
	x := pipeline.NewExchange(t.Context(), &message.Request{Method: "GET"}, &model.Listener{}, netip.AddrPort{}, time.Time{})
	reached := false
	if err := pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { reached = true; return nil }), middleware).Serve(x); err != nil || !reached || x.Request.Body != nil {
		t.Errorf("%v, reached: %v", err, reached)
	}
}

func TestProblems(t *testing.T) {
	for options, want := range map[string]string{
		"{max: 1KiB}":          "",
		"{max: 10}":            "",
		"{}":                   "it.yaml:3:79: body_limit needs the key max",
		"{max: -1}":            "it.yaml:3:85: max must not be negative",
		"{max: 1 elephant}":    "it.yaml:3:85: max must be a size such as 64KiB, 10MB or a number of bytes, not the text \"1 elephant\"",
		"{max: 1KiB, min: 10}": "it.yaml:3:91: unknown key \"min\" (known here: max)",
	} {
		_, problems := resolve(options)
		if got := strings.Join(problems, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}
