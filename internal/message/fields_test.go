package message

import (
	"slices"
	"strings"
	"testing"
)

// fields makes a list of "Name: value" lines.
func fields(lines ...string) (f Fields) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		f.Add(name, value)
	}
	return f
}

func lines(f Fields) string {
	var out []string
	for _, l := range f {
		if l.ID != Lookup(l.Name) {
			out = append(out, "wrong ID:")
		}
		out = append(out, l.Name+": "+l.Value)
	}
	return strings.Join(out, "|")
}

func TestFieldsKeepOrderAndSpelling(t *testing.T) {
	f := fields("host: a", "x-B: 1", "X-a: 2", "X-b: 3", "ACCEPT: x")
	if got := lines(f); got != "host: a|x-B: 1|X-a: 2|X-b: 3|ACCEPT: x" {
		t.Error(got)
	}
}

func TestFieldsLookUps(t *testing.T) {
	f := fields("vIA: 1.1 a", "X-One: 1", "x-one: 2", "Via: 1.1 b", "Empty: ")
	if got := f.Get(Via); got != "1.1 a" {
		t.Errorf("Get: %q", got)
	}
	if got := f.Get(Cookie); got != "" {
		t.Errorf("Get of none: %q", got)
	}
	if !f.Has(Via) || f.Has(Cookie) || Fields(nil).Has(Via) {
		t.Error("Has")
	}
	for name, want := range map[string]string{"X-ONE": "1", "via": "1.1 a", "empty": "", "X-On": "none", "X-Ones": "none"} {
		got, ok := f.Find(name)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("Find %s: %q", name, got)
		}
	}
	if _, ok := fields("X-\u212aey: 1").Find("X-Key"); ok { // it folds to K, but case is that of ASCII (RFC 9110 5.1)
		t.Error("Find takes a sign for a letter")
	}
	if got := slices.Collect(f.Values("x-oNe")); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("Values: %q", got)
	}
	for value := range f.Values("x-one") { // it may stop early
		if value != "1" {
			t.Errorf("after the first: %q", value)
		}
		break
	}
}

func TestFieldsSet(t *testing.T) {
	for _, c := range []struct{ before, name, want string }{
		{"", "A", "A: new"},
		{"B: 1", "A", "B: 1|A: new"},
		{"B: 1|a: 1|C: 1", "A", "B: 1|a: new|C: 1"},
		{"a: 1|B: 1|A: 2|C: 1|A: 3", "A", "a: new|B: 1|C: 1"},
		{"A: 1|A: 2", "a", "A: new"},
	} {
		var f Fields
		if c.before != "" {
			f = fields(strings.Split(c.before, "|")...)
		}
		f.Set(c.name, "new")
		if got := lines(f); got != c.want {
			t.Errorf("%s: %s, want %s", c.before, got, c.want)
		}
	}
	f := fields("x-request-id: 1")
	f.Put(XRequestID, "2")
	f.Put(Via, "1.1 a")
	if got := lines(f); got != "x-request-id: 2|Via: 1.1 a" {
		t.Errorf("Put: %s", got)
	}
}

func TestFieldsDelete(t *testing.T) {
	f := fields("A: 1", "b: 1", "a: 2", "C: 1")
	f.Delete("A")
	f.Delete("none")
	if got := lines(f); got != "b: 1|C: 1" {
		t.Error(got)
	}
	f.DeleteFunc(func(l Field) bool { return l.Value == "1" && l.Name == "C" })
	if got := lines(f); got != "b: 1" {
		t.Error(got)
	}
}

func TestFieldsCloneSharesNothing(t *testing.T) {
	f := fields("A: 1", "B: 1")
	clone := f.Clone()
	clone.Set("A", "2")
	clone.Delete("B")
	clone.Add("C", "3")
	if got := lines(f); got != "A: 1|B: 1" {
		t.Errorf("the original has %s", got)
	}
	if got := lines(clone); got != "A: 2|C: 3" {
		t.Errorf("the clone has %s", got)
	}
	if Fields(nil).Clone() != nil {
		t.Error("a clone of nothing is something")
	}
}

func TestFieldsList(t *testing.T) {
	f := fields("Connection: close, ,\tUpgrade\t,", "X: a", "connection: Keep-Alive", "Connection: ")
	if got := slices.Collect(f.List(Connection)); !slices.Equal(got, []string{"close", "Upgrade", "Keep-Alive"}) {
		t.Errorf("got %q", got)
	}
	for member := range f.List(Connection) {
		if member != "close" {
			t.Errorf("after the first: %q", member)
		}
		break
	}
	for token, want := range map[string]bool{"upgrade": true, "KEEP-ALIVE": true, "close": true, "clos": false, "": false} {
		if f.HasToken(Connection, token) != want {
			t.Errorf("HasToken %q", token)
		}
	}
}

func TestFieldsCookie(t *testing.T) {
	f := fields("Cookie: a=1; b=2;c=3 ; empty=; bare; q=\"x y\"; half=\"x; eq=a=b; wide= \t7 ; far= \"8\"", "X: d=4", "cookie: d=5; a=6")
	for name, want := range map[string]string{
		"a": "1", "b": "2", "c": "3", "empty": "", "bare": "none", "q": "x y", "half": `"x`, "eq": "a=b", "wide": "7", "far": "8", "d": "5", "A": "none", "": "none",
	} {
		got, ok := f.Cookie(name)
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got, want := slices.Collect(f.Cookies("a")), []string{"1", "6"}; !slices.Equal(got, want) {
		t.Errorf("all values of a: %q, want %q", got, want)
	}
}

func TestLookup(t *testing.T) {
	seen := map[string]bool{}
	for n := Other + 1; n < nameCount; n++ {
		name := n.String()
		if name == "" || seen[strings.ToLower(name)] {
			t.Errorf("name %d is %q", n, name)
		}
		seen[strings.ToLower(name)] = true
		for _, spelled := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := Lookup(spelled); got != n {
				t.Errorf("%s is %d, want %d", spelled, got, n)
			}
		}
	}
	for _, name := range []string{"", "X", "Hosts", "Hos", "X_Request_ID", strings.Repeat("x", 31), strings.Repeat("x", 32), strings.Repeat("x", 1000)} {
		if got := Lookup(name); got != Other {
			t.Errorf("%q is %s", name, got)
		}
	}
	if got := Other.String(); got != "" {
		t.Errorf("Other is %q", got)
	}
	if n := testing.AllocsPerRun(100, func() { Lookup("x-FORWARDED-for") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestReason(t *testing.T) {
	for status, want := range map[int]string{200: "OK", 404: "Not Found", 508: "Loop Detected", 299: "", 0: "", 600: ""} {
		if got := Reason(status); got != want {
			t.Errorf("%d: %q", status, got)
		}
	}
}

// closer notes that it was closed.
type closer struct{ closed int }

func (c *closer) Read([]byte) (int, error)    { return 0, nil }
func (c *closer) Write(p []byte) (int, error) { return len(p), nil }
func (c *closer) CloseWrite() error           { return nil }
func (c *closer) Close() error                { c.closed++; return nil }

func TestResponseClose(t *testing.T) {
	body, tunnel := &closer{}, &closer{}
	for _, r := range []*Response{nil, {}, {Body: body}, {Tunnel: tunnel}} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if body.closed != 1 || tunnel.closed != 1 {
		t.Errorf("closed %d, %d", body.closed, tunnel.closed)
	}
}

func TestLookupIgnoresCaseOfLettersOnly(t *testing.T) {
	for _, name := range []string{"Via\x00", "v\x49a\r", "X\rRequest-ID", "Content\rLength", "SET\x0dCOOKIE", "te\x20", "t%", "\x14E", "Ho\u017f", "coo\u212aie"} {
		if got := Lookup(name); got != Other {
			t.Errorf("%q is %s", name, got)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"Content-Length", "content-length", "X-Something-Else"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Lookup(name)
			}
		})
	}
}
