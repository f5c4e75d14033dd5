package canonical

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		violation error
	}{
		// Clean ones stay.
		{"/", "/", nil},
		{"/a", "/a", nil},
		{"/a/b/", "/a/b/", nil},
		{"/a.b/..c/d../...", "/a.b/..c/d../...", nil},
		{"/.well-known/x", "/.well-known/x", nil},
		{"/a;x=1/b,c@d:e!$&'()*+=", "/a;x=1/b,c@d:e!$&'()*+=", nil},
		{"/ü", "/%C3%BC", nil},
		{`/a"b<c>{d}|e^f[g]h`, "/a%22b%3Cc%3E%7Bd%7D%7Ce%5Ef%5Bg%5Dh", nil},

		// Dot segments (RFC 3986 5.2.4).
		{"/a/./b", "/a/b", nil},
		{"/a/../b", "/b", nil},
		{"/a/b/c/./../../g", "/a/g", nil},
		{"/a/.", "/a/", nil},
		{"/a/..", "/", nil},
		{"/a/b/..", "/a/", nil},
		{"/a/./", "/a/", nil},
		{"/a/../", "/", nil},
		{"/.", "/", nil},
		{"/./", "/", nil},
		{"/a/%2e%2E/b", "/b", nil},
		{"/a/%2e/b", "/a/b", nil},
		{"/a/.%2e", "/", nil},

		// Repeated slashes.
		{"//", "/", nil},
		{"//a", "/a", nil},
		{"/a//b///c//", "/a/b/c/", nil},
		{"/a//../b", "/b", nil},
		{"/a/.//b", "/a/b", nil},

		// Escapes.
		{"/%41%7e%5f%2d%2E", "/A~_-.", nil},
		{"/%c3%a9", "/%C3%A9", nil},
		{"/a%20b", "/a%20b", nil},
		{"/%25", "/%25", nil},
		{"/%252e%252e/x", "/%252e%252e/x", nil},
		{"/%3f%23", "/%3F%23", nil},

		// An encoded slash is data.
		{"/a%2fb", "/a%2Fb", nil},
		{"/a%5cb", "/a%5Cb", nil},
		{"/%2F", "/%2F", nil},
		{"/a%2F%2Fb", "/a%2F%2Fb", nil},
		{"/a%2Fb/../c", "/c", nil},
		{"/a%2F.b/..c%2Fd", "/a%2F.b/..c%2Fd", nil},

		// Violations: the form is usable even so.
		{"", "/", ErrNoSlash},
		{"a", "/a", ErrNoSlash},
		{"*", "/*", ErrNoSlash},
		{"../a", "/a", ErrNoSlash},
		{"/..", "/", ErrAboveRoot},
		{"/../a", "/a", ErrAboveRoot},
		{"/a/../../b", "/b", ErrAboveRoot},
		{"/%2e%2e/a", "/a", ErrAboveRoot},
		{"/a/..%2Fb", "/a/..%2Fb", ErrHiddenDots},
		{"/a/..%2fb", "/a/..%2Fb", ErrHiddenDots},
		{"/a/%2e%2e%2fb", "/a/..%2Fb", ErrHiddenDots},
		{"/a/..%5Cb", "/a/..%5Cb", ErrHiddenDots},
		{"/a%2F..", "/a%2F..", ErrHiddenDots},
		{"/a%2F..%2Fb", "/a%2F..%2Fb", ErrHiddenDots},
		{"/a%5C..%2Fb", "/a%5C..%2Fb", ErrHiddenDots},
		{"/.%2Fb", "/.%2Fb", ErrHiddenDots},
		{"/a%2F./b", "/a%2F./b", ErrHiddenDots},
		{"/a%00b", "/a%00b", ErrNUL},
		{"/a\x00b", "/a\x00b", ErrNUL},
		{"/a\\b", "/a\\b", ErrBackslash},
		{"/a\x1fb", "/a\x1fb", ErrControl},
		{"/a\x7fb", "/a\x7fb", ErrControl},
		{"/a\tb", "/a\tb", ErrControl},
		{"/%", "/%", ErrEscape},
		{"/%4", "/%4", ErrEscape},
		{"/%zz", "/%zz", ErrEscape},
		{"/%u0041", "/%u0041", ErrEscape},
		{"/a%2", "/a%2", ErrEscape},
		// A stray percent sign gets no digits from escapes behind it.
		{"/%%34%31", "/%%341", ErrEscape},
		{"/%4%31", "/%4%31", ErrEscape},
		{"/%%%32e", "/%%%32e", ErrEscape},
		{"/%%41BC%44", "/%%41BCD", ErrEscape},
		{"/%xy%41", "/%xyA", ErrEscape},
	} {
		got, err := Path(c.raw, Options{EncodedSlash: Keep})
		if got != c.want || !errors.Is(err, c.violation) || (err == nil) != (c.violation == nil) {
			t.Errorf("%q: %q, %v; want %q, %v", c.raw, got, err, c.want, c.violation)
		}
	}
}

func TestPathWithEncodedSlashes(t *testing.T) {
	for _, c := range []struct {
		treatment EncodedSlash
		raw, want string
		violation error
	}{
		{Refuse, "/a%2fb", "/a%2Fb", ErrEncodedSlash},
		{Refuse, "/a%5cb", "/a%5Cb", ErrEncodedSlash},
		{Refuse, "/a%2f..", "/a%2F..", ErrHiddenDots},
		{Refuse, "/a%252fb", "/a%252fb", nil},
		{Refuse, "/a/b", "/a/b", nil},
		{Decode, "/a%2fb", "/a/b", nil},
		{Decode, "/a%2f%2fb%2F", "/a/b/", nil},
		{Decode, "/%2fa", "/a", nil},
		{Decode, "/a%5cb", "/a%5Cb", nil},
		{Decode, "/a%252fb", "/a%252fb", nil},
		{Decode, "/a/..%2Fb", "/b", ErrHiddenDots},
		{Decode, "/a%2F..%2F..%2Fb", "/b", ErrHiddenDots},
	} {
		got, err := Path(c.raw, Options{EncodedSlash: c.treatment})
		if got != c.want || !errors.Is(err, c.violation) || (err == nil) != (c.violation == nil) {
			t.Errorf("%s %q: %q, %v; want %q, %v", c.treatment, c.raw, got, err, c.want, c.violation)
		}
	}
}

func TestPathWithSlashesKept(t *testing.T) {
	for _, c := range []struct{ raw, want string }{
		{"//", "//"},
		{"//a", "//a"},
		{"/a//b///c//", "/a//b///c//"},
		{"/a//../b", "/a/b"},
		{"/a//.", "/a//"},
		{"/a//..", "/a/"},
		{"//..", "/"},
		{"/a/./b//", "/a/b//"},
		{"/a/b", "/a/b"},
	} {
		if got, err := Path(c.raw, Options{KeepSlashes: true, EncodedSlash: Keep}); got != c.want || err != nil {
			t.Errorf("%q: %q, %v; want %q", c.raw, got, err, c.want)
		}
	}
	if got, err := Path("/a%2F%2Fb", Options{KeepSlashes: true, EncodedSlash: Decode}); got != "/a//b" || err != nil {
		t.Errorf("decoded: %q, %v", got, err)
	}
}

// slow is Path without the look at whether there is anything to do.
func slow(raw string, options Options) (string, error) {
	// Something in front that goes away again keeps the fast way shut.
	path, err := Path("/."+raw, options)
	return path, err
}

// checkPath checks what must hold for any path.
func checkPath(t *testing.T, raw string) {
	t.Helper()
	for _, options := range []Options{
		{EncodedSlash: Keep}, {EncodedSlash: Refuse}, {EncodedSlash: Decode},
		{EncodedSlash: Keep, KeepSlashes: true}, {EncodedSlash: Decode, KeepSlashes: true},
	} {
		path, err := Path(raw, options)
		again, errAgain := Path(path, options)
		if again != path {
			t.Fatalf("%q %+v: %q, and that becomes %q", raw, options, path, again)
		}
		if err == nil && errAgain != nil {
			t.Fatalf("%q %+v: %q breaks a rule only now: %v", raw, options, path, errAgain)
		}
		if !strings.HasPrefix(path, "/") {
			t.Fatalf("%q %+v: %q", raw, options, path)
		}
		for segment := range strings.SplitSeq(path[1:], "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("%q %+v: %q has a dot segment", raw, options, path)
			}
		}
		if !options.KeepSlashes && strings.Contains(path, "//") {
			t.Fatalf("%q %+v: %q has repeated slashes", raw, options, path)
		}
		if clean(raw) {
			if got, err := slow(raw, options); got != raw || err != nil || path != raw {
				t.Fatalf("%q %+v: the slow way gives %q, %v", raw, options, got, err)
			}
		}
		if err != nil {
			continue
		}
		// An endpoint that decodes everything, slashes too, must not climb.
		depth := 0
		decoded := strings.NewReplacer("%2F", "/", "%5C", "/", "%2f", "/", "%5c", "/").Replace(path)
		for segment := range strings.SplitSeq(decoded, "/") {
			switch segment {
			case "..":
				depth--
			case ".", "":
			default:
				depth++
			}
			if segment == ".." || depth < 0 {
				t.Fatalf("%q %+v: %q climbs once decoded", raw, options, path)
			}
		}
	}
}

func TestPathProperties(t *testing.T) {
	pieces := []string{"/", "/", "//", ".", "..", "%2e", "%2E", "%2f", "%5C", "%", "%%", "%4", "%41", "%34", "%00", "a", "b", "2", "e", "E", "\\", "\x00", "\x01", "ü", "%c3", ";", "~"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var raw strings.Builder
		if random.IntN(20) > 0 {
			raw.WriteByte('/')
		}
		for range random.IntN(10) {
			raw.WriteString(pieces[random.IntN(len(pieces))])
		}
		checkPath(t, raw.String())
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/..%2Fb", "/%%34%31", "//..//.", "/a%2e/./%2e%2e/%5c", ""} {
		f.Add(seed)
	}
	f.Fuzz(checkPath)
}

func TestCleanPathsDoNotAllocate(t *testing.T) {
	for _, raw := range []string{"/", "/api/v1/users/42", "/assets/app.min.js", "/a/b/c/"} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Path(raw, Options{EncodedSlash: Keep}); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", raw, n)
		}
	}
}

func BenchmarkPath(b *testing.B) {
	for name, raw := range map[string]string{"clean": "/api/v1/users/42", "escapes": "/api//v1/%75sers/4%32/../43"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Path(raw, Options{EncodedSlash: Keep}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
