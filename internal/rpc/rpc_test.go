package rpc

import (
	"bytes"
	"math"
	"net/url"
	"testing"
	"time"
)

func TestFormOf(t *testing.T) {
	for value, want := range map[string]struct {
		form   Form
		suffix string
	}{
		"application/grpc":                              {Plain, ""},
		"application/grpc+proto":                        {Plain, "+proto"},
		"Application/GRPC+json; charset=utf-8":          {Plain, "+json"},
		"application/grpc ;x=1":                         {Plain, ""},
		"application/grpc-web":                          {Web, ""},
		"application/grpc-web+proto":                    {Web, "+proto"},
		"application/grpc-web-text":                     {WebText, ""},
		" application/grpc-web-text+proto":              {WebText, "+proto"},
		"application/grpc-web-textual":                  {None, ""},
		"application/grpcx":                             {None, ""},
		"application/grp":                               {None, ""},
		"application/json":                              {None, ""},
		"application/json;for=the application/grpc+any": {None, ""},
		"": {None, ""},
	} {
		if form, suffix := FormOf(value); form != want.form || suffix != want.suffix {
			t.Errorf("%q: %d %q", value, form, suffix)
		}
	}
	if got := WebText.ContentType("+proto"); got != "application/grpc-web-text+proto" {
		t.Error(got)
	}
	if Plain.IsWeb() || None.IsWeb() || !Web.IsWeb() || !WebText.IsWeb() {
		t.Error("which forms are the web's")
	}
}

func TestEscapeMessage(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"all is well: ~!":          "all is well: ~!",
		"100%":                     "100%25",
		"a\r\nb\x7f\x00":           "a%0D%0Ab%7F%00",
		"\t\ntest with whitespace": "%09%0Atest with whitespace",
		"é😈":                       "%C3%A9%F0%9F%98%88",
		"\xff":                     "%FF",
	} {
		got := EscapeMessage(text)
		if got != want {
			t.Errorf("%q: %q", text, got)
		}
		if back, err := url.PathUnescape(got); err != nil || back != text {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
}

func TestCode(t *testing.T) {
	for number, want := range map[int]string{0: "OK", 1: "CANCELLED", 4: "DEADLINE_EXCEEDED", 16: "UNAUTHENTICATED", 17: "17", -1: "-1"} {
		if got := Code(number).String(); got != want {
			t.Errorf("%d: %s", number, got)
		}
	}
	if got := Unavailable.Field(); got != "14" {
		t.Error(got)
	}
}

func TestParseTimeout(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "250m": 250 * time.Millisecond, "7u": 7 * time.Microsecond, "9n": 9,
		"00000001S": time.Second, "0n": 0, "99999999m": 99999999 * time.Millisecond, "99999999H": math.MaxInt64, "2562047H": 2562047 * time.Hour,
	} {
		if got, ok := ParseTimeout(value); !ok || got != want {
			t.Errorf("%s: %v %v", value, got, ok)
		}
	}
	for _, value := range []string{"", "S", "1", "1s", "1h", "-1S", "+1S", "1.5S", " 1S", "1S ", "1 S", "100000000m", "0x1S", "1SS", "1\u00b5"} {
		if got, ok := ParseTimeout(value); ok {
			t.Errorf("%q passes as %v", value, got)
		}
	}
}

func TestFormatTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		-time.Second: "0n", 0: "0n", 1: "1n", 99999999: "99999999n", 100 * time.Millisecond: "100000u", 100*time.Millisecond + 1: "100001u",
		time.Hour: "3600000m", 48 * time.Hour: "172800S", 3e5 * time.Hour: "18000000M", math.MaxInt64: "2562048H",
	} {
		got := FormatTimeout(timeout)
		if got != want {
			t.Errorf("%v: %s", timeout, got)
		}
		if back, ok := ParseTimeout(got); !ok || back < timeout {
			t.Errorf("%v comes back as %v", timeout, back)
		}
	}
}

// TestPosition passes three messages, split at every place, and byte by byte.
func TestPosition(t *testing.T) {
	body := []byte("\x00\x00\x00\x00\x03abc" + "\x01\x00\x00\x00\x00" + "\x00\x00\x00\x01\x00" + string(make([]byte, 256)))
	ends := map[int]bool{0: true, 8: true, 13: true, len(body): true}
	for i := range len(body) + 1 {
		var p Position
		p.Pass(body[:i])
		if p.Between() != ends[i] {
			t.Errorf("after %d bytes: %v", i, p.Between())
		}
		p.Pass(body[i:])
		if !p.Between() {
			t.Errorf("split at %d: the end is none", i)
		}
	}
	var p Position
	for i := range body {
		if p.Between() != ends[i] {
			t.Errorf("byte by byte, after %d: %v", i, p.Between())
		}
		p.Pass(body[i : i+1])
	}
}

func TestTrailerFrame(t *testing.T) {
	var f TrailerFrame
	if got := f.Bytes(); !bytes.Equal(got, []byte{0x80, 0, 0, 0, 0}) {
		t.Errorf("%q", got)
	}
	f = TrailerFrame{}
	f.Add("Grpc-Status", "0")
	f.Add("x-a", "")
	if got := string(f.Bytes()); got != "\x80\x00\x00\x00\x15grpc-status:0\r\nx-a:\r\n" {
		t.Errorf("%q", got)
	}
}

func TestStatusOf(t *testing.T) {
	for code, want := range map[string]int{"0": 200, "2": 500, "4": 504, "5": 200, "8": 429, "12": 501, "13": 500, "14": 503, "15": 500, "16": 200, "": 200, "x": 200} {
		if got := StatusOf(code); got != want {
			t.Errorf("%q: %d, want %d", code, got, want)
		}
	}
}
