package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/emmansun/gmsm/sm3"
	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const (
	hmacSecret    = "a-secret-that-nobody-knows"
	hmacOptions   = `{keys: [{id: shop, secret: ` + hmacSecret + `, tier: gold, groups: [a]}, {id: app-1, secret: another-secret-of-an-app, consumer: app}]%s}`
	hmacChallenge = "Signature"
)

// signedAt is when requests are signed, and when they come.
var signedAt = time.Unix(1_618_884_473, 0)

// signing signs requests, by other code than that which verifies.
type signing struct {
	label, key, secret string
	components         []string
	params             string // after created and keyid
	values             map[string]string
	hash               func() hash.Hash
}

func (s signing) sign(r *message.Request) *message.Request {
	full := s
	if full.label == "" {
		full.label = "sig"
	}
	if full.key == "" {
		full.key, full.secret = "shop", hmacSecret
	}
	if full.components == nil {
		full.components = []string{"@method", "@path", "@query"}
	}
	if full.hash == nil {
		full.hash = sha256.New
	}
	return full.signAsIs(r)
}

func (s signing) signAsIs(r *message.Request) *message.Request {
	query := r.Query
	if query == "" {
		query = "?"
	}
	values := map[string]string{"@method": r.Method, "@path": r.Path, "@query": query, "@authority": r.Host, "@scheme": r.Scheme, "@target-uri": r.Scheme + "://" + r.Host + r.Target, "@request-target": r.Target}
	for _, f := range r.Fields {
		values[strings.ToLower(f.Name)] = f.Value
	}
	for name, value := range s.values {
		values[name] = value
	}
	var base, input strings.Builder
	for i, name := range s.components {
		fmt.Fprintf(&base, "%q: %s\n", name, values[name])
		if i > 0 {
			input.WriteByte(' ')
		}
		fmt.Fprintf(&input, "%q", name)
	}
	params := s.params
	if !strings.Contains(params, "created") && !strings.Contains(params, "!") {
		params = fmt.Sprintf(";created=%d", signedAt.Unix()) + params
	}
	params = "(" + input.String() + ")" + strings.ReplaceAll(params, "!", "") + fmt.Sprintf(";keyid=%q", s.key)
	fmt.Fprintf(&base, "\"@signature-params\": %s", params)
	mac := hmac.New(s.hash, []byte(s.secret))
	mac.Write([]byte(base.String()))
	r.Fields.Add("Signature-Input", s.label+"="+params)
	r.Fields.Add("Signature", s.label+"=:"+base64.StdEncoding.EncodeToString(mac.Sum(nil))+":")
	return r
}

// body gives a request a body of a length that is told or not, with its digest.
func body(r *message.Request, text string, told bool) *message.Request {
	sum := sha256.Sum256([]byte(text))
	r.Fields.Add("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	r.Method = "POST"
	return bare(r, text, told)
}

func bare(r *message.Request, text string, told bool) *message.Request {
	r.Body, r.Length = io.NopCloser(strings.NewReader(text)), message.Unknown
	if told {
		r.Length = int64(len(text))
	}
	return r
}

func (b *bed) at(r *message.Request, now time.Time) (*pipeline.Principal, *pipeline.Error) {
	x := exchange(b.t, r)
	x.Start = now
	return b.serveExchange(x)
}

// TestRFC9421 verifies the example of RFC 9421 B.2.5.
func TestRFC9421(t *testing.T) {
	b := newBed(t, HMAC(), `{components: [date, "@authority", content-type], keys: [{id: test-shared-secret, secret: "base64:uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="}]}`)
	fields := []string{
		"Date: Tue, 20 Apr 2021 02:07:55 GMT", "Content-Type: application/json",
		`Signature-Input: sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"`,
		"Signature: sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
	}
	r := request("/foo?param=Value&Pet=dog", fields...)
	r.Method = "POST"
	if got, err := b.at(r, signedAt); err != nil || got.Name != "test-shared-secret" {
		t.Errorf("%+v, %v", got, err)
	}
	r = request("/foo", append(fields, "Date: Tue, 20 Apr 2021 02:07:55 GMT")...)
	if _, err := b.at(r, signedAt); err == nil {
		t.Error("a second date is taken")
	}
}

func TestHMAC(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	all := []string{"@method", "@authority", "@path", "@query"}
	sign := func(s signing, target string, fields ...string) *message.Request {
		return s.sign(request(target, fields...))
	}
	date := "Date: " + signedAt.UTC().Format(imfFixdate)
	for what, r := range map[string]*message.Request{
		"the least":                 sign(signing{}, "/a?b=c"),
		"no query":                  sign(signing{}, "/a"),
		"an empty query":            sign(signing{}, "/a?"),
		"no query, and none signed": sign(signing{components: all[:3]}, "/a"),
		"the authority":             sign(signing{components: all}, "/a?b=c"),
		"the target's URI":          sign(signing{components: []string{"@method", "@target-uri"}}, "/a?b=c"),
		"the target":                sign(signing{components: []string{"@method", "@request-target", "@scheme"}}, "/a?b=c"),
		"its algorithm":             sign(signing{params: `;alg="hmac-sha256"`}, "/a"),
		"an end":                    sign(signing{params: fmt.Sprintf(";expires=%d", signedAt.Unix()+1)}, "/a"),
		"more parameters":           sign(signing{params: `;tag="a \" \\ b";nonce="x"`}, "/a"),
		"a date":                    sign(signing{components: append(all, "date"), params: "!"}, "/a", date),
		"a field of two lines":      sign(signing{components: append(all, "x"), values: map[string]string{"x": "1, 2"}}, "/a", "X: 1", "x: 2"),
		"an empty field":            sign(signing{components: append(all, "x")}, "/a", "X: "),
		"another's beside it":       sign(signing{label: "other", key: "stranger", secret: "a-secret-of-a-stranger"}, "/a", sign(signing{}, "/a").Fields[0].Name+": "+sign(signing{}, "/a").Fields[0].Value, "Signature: "+sign(signing{}, "/a").Fields[1].Value),
		"no body, and its digest":   signing{components: append(all, "content-digest")}.sign(body(request("/a"), "", true)),
	} {
		if got, err := b.at(r, signedAt); err != nil || got.Name != "shop" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	got, _ := b.at(sign(signing{}, "/a"), signedAt)
	if diff := cmp.Diff(&pipeline.Principal{Name: "shop", Tier: "gold", Groups: []string{"a"}}, got); diff != "" {
		t.Error(diff)
	}
	if got, err := b.at(sign(signing{key: "app-1", secret: "another-secret-of-an-app"}, "/a"), signedAt); err != nil || got.Name != "app" || b.came.Consumer != "app" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestHMACRefuses changes requests that are signed well, in one thing each.
func TestHMACRefuses(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	all := []string{"@method", "@path", "@query"}
	sign := func(s signing) *message.Request {
		return s.sign(request("/a?b=c", "X: y", "Date: "+signedAt.UTC().Format(imfFixdate)))
	}
	edit := func(name string, change func(string) string) *message.Request {
		r := sign(signing{})
		value, _ := r.Fields.Find(name)
		r.Fields.Set(name, change(value))
		return r
	}
	replace := func(name, from, to string) *message.Request {
		return edit(name, func(value string) string {
			if !strings.Contains(value, from) {
				t.Errorf("%s is not in %s", from, value)
			}
			return strings.Replace(value, from, to, 1)
		})
	}
	with := func(r *message.Request, change func(r *message.Request)) *message.Request { change(r); return r }
	for what, r := range map[string]*message.Request{
		"nothing":                         request("/a?b=c"),
		"Signature alone":                 with(sign(signing{}), func(r *message.Request) { r.Fields.Delete("Signature-Input") }),
		"Signature-Input alone":           with(sign(signing{}), func(r *message.Request) { r.Fields.Delete("Signature") }),
		"both empty":                      request("/a?b=c", "Signature-Input: ", "Signature: "),
		"another method":                  with(sign(signing{}), func(r *message.Request) { r.Method = "POST" }),
		"a method in other case":          with(sign(signing{}), func(r *message.Request) { r.Method = "get" }),
		"another path":                    with(sign(signing{}), func(r *message.Request) { r.Path, r.Target = "/b", "/b?b=c" }),
		"another query":                   with(sign(signing{}), func(r *message.Request) { r.Query = "?b=d" }),
		"a longer query":                  with(sign(signing{}), func(r *message.Request) { r.Query = "?b=c&d" }),
		"no query":                        with(sign(signing{}), func(r *message.Request) { r.Query = "" }),
		"a query that is not covered":     signing{components: all[:2]}.sign(request("/a?b=c")),
		"no method":                       sign(signing{components: all[1:]}),
		"no path":                         sign(signing{components: []string{"@method", "@query"}}),
		"nothing is covered":              sign(signing{components: []string{}}),
		"another secret":                  sign(signing{key: "shop", secret: hmacSecret + "x"}),
		"another key's secret":            sign(signing{key: "shop", secret: "another-secret-of-an-app"}),
		"an unknown key":                  sign(signing{key: "nobody", secret: hmacSecret}),
		"an unknown key and no secret":    sign(signing{key: "nobody"}),
		"no key":                          sign(signing{key: " "}),
		"another algorithm's name":        sign(signing{params: `;alg="hmac-sha512"`}),
		"an asymmetric algorithm":         sign(signing{params: `;alg="ed25519"`}),
		"another algorithm":               sign(signing{hash: sha512.New}),
		"too old":                         sign(signing{params: fmt.Sprintf(";created=%d", signedAt.Unix()-301)}),
		"of the future":                   sign(signing{params: fmt.Sprintf(";created=%d", signedAt.Unix()+301)}),
		"before all time":                 sign(signing{params: ";created=-999999999999999"}),
		"after all time":                  sign(signing{params: ";created=999999999999999"}),
		"no time":                         sign(signing{params: "!"}),
		"a date that is not covered":      sign(signing{params: "!", components: append(all, "x")}),
		"an old date":                     signing{params: "!", components: append(all, "date")}.sign(request("/a", "Date: "+signedAt.Add(-301*time.Second).UTC().Format(imfFixdate))),
		"no date":                         signing{params: "!", components: append(all, "date")}.sign(request("/a", "Date: now")),
		"a good date, and an old time":    sign(signing{params: fmt.Sprintf(";created=%d", signedAt.Unix()-301), components: append(all, "date")}),
		"over":                            sign(signing{params: fmt.Sprintf(";expires=%d", signedAt.Unix())}),
		"a field that is not there":       sign(signing{components: append(all, "y")}),
		"a field that has changed":        with(sign(signing{components: append(all, "x")}), func(r *message.Request) { r.Fields.Set("X", "z") }),
		"a field that is there once more": with(sign(signing{components: append(all, "x")}), func(r *message.Request) { r.Fields.Add("X", "y") }),
		"a field in upper case":           sign(signing{components: append(all, "X"), values: map[string]string{"X": "y"}}),
		"a component of responses":        sign(signing{components: append(all, "@status"), values: map[string]string{"@status": "200"}}),
		"an unknown component":            sign(signing{components: append(all, "@signature-params")}),
		"a component twice":               sign(signing{components: append(all, "@path")}),
		"two signatures":                  with(sign(signing{}), func(r *message.Request) { signing{label: "b"}.sign(r) }),
		"a label twice":                   with(sign(signing{}), func(r *message.Request) { signing{}.sign(r) }),
		"another label":                   replace("Signature", "sig=", "gis="),
		"a signature cut":                 edit("Signature", func(v string) string { return v[:len(v)-6] + ":" }),
		"no signature":                    edit("Signature", func(string) string { return "sig=::" }),
		"a signature as text":             edit("Signature", func(v string) string { return strings.ReplaceAll(v, ":", `"`) }),
		"bits that are not zero":          edit("Signature", func(v string) string { return v[:len(v)-3] + string(v[len(v)-3]+1) + v[len(v)-2:] }),
		"something behind":                edit("Signature", func(v string) string { return v + " x" }),
		"a comma behind":                  edit("Signature", func(v string) string { return v + "," }),
		"a parameter of the signature":    edit("Signature", func(v string) string { return v + ";a=1" }),
		"a time with a fraction":          replace("Signature-Input", ";keyid", ".0;keyid"),
		"a time with a zero":              replace("Signature-Input", "created=", "created=0"),
		"a time as text":                  replace("Signature-Input", "created=", `created="`),
		"a later time":                    replace("Signature-Input", "created=1618884473", "created=1618884474"),
		"a time twice, and signed so":     sign(signing{params: fmt.Sprintf(";created=%d;created=%d", signedAt.Unix(), signedAt.Unix())}),
		"a time twice":                    replace("Signature-Input", ";keyid", ";created=1618884473;keyid"),
		"a key twice":                     edit("Signature-Input", func(v string) string { return v + `;keyid="shop"` }),
		"a parameter without value":       edit("Signature-Input", func(v string) string { return v + ";x" }),
		"a token as a value":              edit("Signature-Input", func(v string) string { return v + ";x=y" }),
		"a token as an item's parameter":  edit("Signature", func(v string) string { return v + ";a=b;c" }),
		"a component with a parameter":    replace("Signature-Input", `"@path"`, `"@path";sf`),
		"components with commas":          replace("Signature-Input", `"@method" "@path"`, `"@method","@path"`),
		"components without space":        replace("Signature-Input", `"@method" "@path"`, `"@method""@path"`),
		"components as tokens":            replace("Signature-Input", `"@method"`, `@method`),
		"a list that is open":             replace("Signature-Input", ")", ""),
		"a text that is open":             edit("Signature-Input", func(v string) string { return v[:len(v)-1] }),
		"an escape that is none":          replace("Signature-Input", `"@method"`, `"\@method"`),
		"other letters":                   edit("Signature-Input", func(v string) string { return v + `;x="ä"` }),
		"a label in upper case":           edit("Signature-Input", func(v string) string { return "S" + v }),
		"a long input":                    edit("Signature-Input", func(v string) string { return v + `, x=("` + strings.Repeat("x", longestInput) + `")` }),
		"a long signature":                edit("Signature", func(v string) string { return v + ", x=:" + strings.Repeat("A", longestInput) + ":" }),
		"many labels": with(sign(signing{}), func(r *message.Request) {
			for i := range mostMembers {
				r.Fields.Add("Signature-Input", fmt.Sprintf("l%d=()", i))
			}
		}),
	} {
		_, err := b.at(r, signedAt)
		b.refused(what, err, hmacChallenge)
		if err == nil {
			continue
		}
		if got, _ := err.Fields.Find("Accept-Signature"); got != `sig=("@method" "@path" "@query");created;alg="hmac-sha256"` {
			t.Errorf("%s: what is accepted is %s", what, got)
		}
	}
}

// TestHMACPaths: a client may sign the path as it sends it, or in its canonical form; no
// other.
func TestHMACPaths(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	for _, c := range []struct {
		target, path, signed string
		good                 bool
	}{
		{"/a%7eb/../c", "/c", "/a%7eb/../c", true},
		{"/a%7eb/../c", "/c", "/c", true},
		{"/a%7eb/../c", "/c", "/a~b/../c", false},
		{"/a%7eb/../c", "/c", "/a", false},
		{"http://example.com/a%7e?b=c", "/a~", "/a%7e", true},
		{"http://example.com/a%7e?b=c", "/a~", "/a~", true},
		{"http://example.com?b=c", "/", "/", true},
		{"HTTP://example.com", "/", "http://example.com", false},
		{"*", "*", "*", true},
	} {
		r := request("/?b=c")
		r.Path = c.signed
		r = signing{}.sign(r)
		r.Target, r.Path = c.target, c.path
		if _, err := b.at(r, signedAt); (err == nil) != c.good {
			t.Errorf("%s, that is %s, signed as %s: %v", c.target, c.path, c.signed, err)
		}
	}
}

func TestHMACAuthority(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ", components: ['@authority']"))
	for _, c := range []struct{ scheme, host, signed string }{
		{"http", "Example.COM:80", "example.com"},
		{"https", "example.com:443", "example.com"},
		{"https", "example.com:80", "example.com:80"},
		{"http", "[::1]:8080", "[::1]:8080"},
	} {
		r := signing{components: []string{"@authority"}, values: map[string]string{"@authority": c.signed}}.sign(request("/"))
		r.Scheme, r.Host = c.scheme, c.host
		if _, err := b.at(r, signedAt); err != nil {
			t.Errorf("%s: %v", c.host, err)
		}
	}
	r := signing{components: []string{"host"}, values: map[string]string{"host": "Example.com"}}.sign(request("/"))
	r.Host = "Example.com"
	if _, err := b.at(r, signedAt); err != nil {
		t.Error(err)
	}
	for _, components := range [][]string{{"@method"}, {"@request-target"}} {
		_, err := b.at(signing{components: components}.sign(request("/")), signedAt)
		b.refused(fmt.Sprint(components), err, hmacChallenge)
	}
}

// TestHMACContentLength: how long a body is is said by the framing, and may be signed.
func TestHMACContentLength(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	for _, c := range []struct {
		signed string
		told   bool
		good   bool
	}{{"5", true, true}, {"5", false, false}, {"-1", false, false}, {"", false, false}, {"6", true, false}} {
		s := signing{components: []string{"@method", "@path", "content-digest", "content-length"}, values: map[string]string{"content-length": c.signed}}
		if _, err := b.at(s.sign(body(request("/"), "hello", c.told)), signedAt); (err == nil) != c.good {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s := signing{components: []string{"@method", "@path", "content-length"}, values: map[string]string{"content-length": "0"}}
	if _, err := b.at(s.sign(request("/")), signedAt); err != nil {
		t.Errorf("no body: %v", err)
	}
}

func TestHMACAlgorithms(t *testing.T) {
	for algorithm, hash := range map[string]func() hash.Hash{"hmac-sha256": sha256.New, "hmac-sha384": sha512.New384, "hmac-sha512": sha512.New, "hmac-sm3": sm3.New} {
		b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ", algorithm: "+algorithm))
		for _, params := range []string{"", `;alg="` + algorithm + `"`} {
			if _, err := b.at(signing{hash: hash, params: params}.sign(request("/")), signedAt); err != nil {
				t.Errorf("%s: %v", algorithm, err)
			}
		}
	}
}

// TestSM3 is the example of GM/T 0004 A.1, so that the hash is known to be the one.
func TestSM3(t *testing.T) {
	want := "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"
	h := newHash("hmac-sm3")()
	h.Write([]byte("abc"))
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Error(got)
	}
}

func TestHMACBody(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ", max_body: 1KiB"))
	covered := signing{components: []string{"@method", "@path", "@query", "content-digest"}}
	digest := func(r *message.Request, value string) *message.Request {
		r.Fields.Set("Content-Digest", value)
		return r
	}
	sum512 := sha512.Sum512([]byte("hello"))
	both := "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:, sha-512=:" + base64.StdEncoding.EncodeToString(sum512[:]) + ":"
	for what, c := range map[string]struct {
		r    *message.Request
		word pipeline.Word // empty: it passes
	}{
		"a body":              {covered.sign(body(request("/"), "hello", true)), ""},
		"chunked":             {covered.sign(body(request("/"), "hello", false)), ""},
		"as large as may be":  {covered.sign(body(request("/"), strings.Repeat("x", 1024), true)), ""},
		"as large, chunked":   {covered.sign(body(request("/"), strings.Repeat("x", 1024), false)), ""},
		"empty, chunked":      {covered.sign(body(request("/"), "", false)), ""},
		"empty, not covered":  {signing{}.sign(bare(request("/"), "", false)), ""},
		"two digests":         {covered.sign(digest(body(request("/"), "hello", true), both)), ""},
		"another digest, too": {covered.sign(digest(body(request("/"), "hello", true), "md5=:XUFAKrxLKna5cZ2REBfFkg==:,"+both)), ""},
		"too large":           {covered.sign(body(request("/"), strings.Repeat("x", 1025), true)), pipeline.BodyTooLarge},
		"too large, chunked":  {covered.sign(body(request("/"), strings.Repeat("x", 1025), false)), pipeline.BodyTooLarge},
		"another body":        {bare(covered.sign(body(request("/"), "hello", true)), "hullo", true), pipeline.Unauthenticated},
		"a longer body":       {bare(covered.sign(body(request("/"), "hello", true)), "hello ", false), pipeline.Unauthenticated},
		"no body":             {bare(covered.sign(body(request("/"), "hello", true)), "", true), pipeline.Unauthenticated},
		"none at all": {func() *message.Request {
			r := covered.sign(body(request("/"), "hello", true))
			r.Body, r.Length = nil, 0
			return r
		}(), pipeline.Unauthenticated},
		"not covered":            {signing{}.sign(body(request("/"), "hello", true)), pipeline.Unauthenticated},
		"not covered, chunked":   {signing{}.sign(body(request("/"), "hello", false)), pipeline.Unauthenticated},
		"an unknown digest":      {covered.sign(digest(body(request("/"), "hello", true), "md5=:XUFAKrxLKna5cZ2REBfFkg==:")), pipeline.Unauthenticated},
		"the first digest wrong": {covered.sign(digest(body(request("/"), "hello", true), "sha-512=:AAAA:, sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")), pipeline.Unauthenticated},
		"one wrong digest":       {covered.sign(digest(body(request("/"), "hello", true), strings.Replace(both, "LP", "LQ", 1))), pipeline.Unauthenticated},
		"the last digest wrong":  {covered.sign(digest(body(request("/"), "hullo", true), strings.Replace(both, "LP", "LQ", 1))), pipeline.Unauthenticated},
		"a digest twice":         {covered.sign(digest(body(request("/"), "hello", true), both+", sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:")), pipeline.Unauthenticated},
		"a digest cut":           {covered.sign(digest(body(request("/"), "hello", true), "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOL:")), pipeline.Unauthenticated},
		"no digest":              {covered.sign(digest(body(request("/"), "hello", true), "")), pipeline.Unauthenticated},
		"an old form of digest":  {covered.sign(digest(body(request("/"), "hello", true), "SHA-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=")), pipeline.Unauthenticated},
	} {
		var before []byte
		if c.word == "" {
			before, _ = io.ReadAll(c.r.Body)
			c.r.Body = io.NopCloser(bytes.NewReader(before))
		}
		_, err := b.at(c.r, signedAt)
		if c.word != "" {
			if err == nil || err.Word != c.word {
				t.Errorf("%s: %v", what, err)
			}
			if c.word == pipeline.BodyTooLarge && !err.Close {
				t.Errorf("%s: the connection goes on, with the body", what)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		buffered := message.Buffered(c.r.Body)
		after, failure := io.ReadAll(c.r.Body)
		if failure != nil || !bytes.Equal(before, after) || c.r.Length != int64(len(before)) || buffered != len(before) {
			t.Errorf("%s: the body goes on as %q of %d, %d are there, %v", what, after, c.r.Length, buffered, failure)
		}
	}
}

// cut is a body that breaks off, and notes that it was closed.
type cut struct {
	io.Reader
	closed bool
}

var errCut = errors.New("cut")

func (c *cut) Close() error { c.closed = true; return nil }

func TestHMACBodyThatBreaksOff(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	r := signing{components: []string{"@method", "@path", "content-digest"}}.sign(body(request("/"), "hello", true))
	r.Body = &cut{Reader: io.MultiReader(strings.NewReader("hel"), failing{})}
	if _, err := b.at(r, signedAt); !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}

// TestHMACBodyThatIsNotRead: where a body is known to be there and is not covered, nobody
// waits for it; nor where the signature is not good.
func TestHMACBodyThatIsNotRead(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	for what, r := range map[string]*message.Request{
		"not covered":    signing{}.sign(body(request("/"), "hello", true)),
		"another secret": signing{key: "shop", secret: "another", components: []string{"@method", "@path", "content-digest"}}.sign(body(request("/"), "hello", true)),
		"an old one":     signing{params: ";created=1", components: []string{"@method", "@path", "content-digest"}}.sign(body(request("/"), "hello", true)),
	} {
		r.Body = &cut{Reader: failing{}}
		_, err := b.at(r, signedAt)
		b.refused(what, err, hmacChallenge)
	}
}

// TestDigestsOfLongBodiesAside: while the digest of a long body is computed others go on.
func TestDigestsOfLongBodiesAside(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	s := signing{components: []string{"@method", "@path", "content-digest"}}
	for length, want := range map[int]int{longBody: 0, longBody + 1: 1} {
		for _, good := range []bool{true, false} {
			aside := 0
			text := strings.Repeat("x", length)
			r := s.sign(body(request("/"), text, true))
			if !good {
				r.Body = io.NopCloser(strings.NewReader("y" + text[1:]))
			}
			x := pipeline.NewExchange(engine{t.Context(), &aside}, r, &model.Listener{}, netip.AddrPort{}, signedAt)
			if _, err := b.serveExchange(x); (err == nil) != good || aside != want {
				t.Errorf("%d bytes, good: %v: %v, %d aside, want %d", length, good, err, aside, want)
			}
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errCut }

// TestHMACTrailers: trailers, which nothing signs, go no further, and closing what is
// passed on closes what it was read from.
func TestHMACTrailers(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	r := signing{components: []string{"@method", "@path", "content-digest"}}.sign(body(request("/"), "hello", false))
	from := &cut{Reader: strings.NewReader("hello")}
	r.Body = from
	r.Trailer = func() message.Fields { return message.Fields{{Name: "X", Value: "y"}} }
	if _, err := b.at(r, signedAt); err != nil {
		t.Fatal(err)
	}
	if r.Length != 5 || r.Trailer != nil {
		t.Errorf("the length is %d, trailers: %v", r.Length, r.Trailer != nil)
	}
	if err := r.Body.Close(); err != nil || !from.closed {
		t.Errorf("closed: %v, %v", from.closed, err)
	}
}

// TestHMACTrailersOfNothing: a body that is empty needs no digest, and may have trailers.
func TestHMACTrailersOfNothing(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	r := signing{}.sign(request("/", "Trailer: X-User"))
	r.Body, r.Length = &cut{Reader: strings.NewReader("")}, message.Unknown
	r.Trailer = func() message.Fields { return message.Fields{{Name: "X-User", Value: "admin"}} }
	if _, err := b.at(r, signedAt); err != nil {
		t.Fatal(err)
	}
	if r.Trailer != nil || r.Fields.Has(message.Trailer) {
		t.Errorf("trailers: %v, fields: %v", r.Trailer != nil, r.Fields)
	}
}

func TestHMACFile(t *testing.T) {
	file := "- {id: shop, secret: '${file:secret}'}\n"
	b := newBed(t, HMAC(), "{keys_file: keys.yaml}", "keys.yaml", file, "secret", hmacSecret+"\n")
	if got, err := b.at(signing{}.sign(request("/")), signedAt); err != nil || got.Name != "shop" {
		t.Errorf("%+v, %v", got, err)
	}
	b.write("secret", "another-secret-of-an-app")
	b.load("{keys_file: keys.yaml}")
	_, err := b.at(signing{}.sign(request("/")), signedAt)
	b.refused("the secret before", err, hmacChallenge)
}

func TestHMACProblems(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	key := "{id: a, secret: 0123456789abcdef}"
	for options, want := range map[string]string{
		"{}": "hmac_auth has no keys, so that nobody could pass (write keys: [{id: NAME, secret: …}], or keys_file)",
		"{keys: [{id: a, secret: 0123456789abcde}]}":                               "secret must have at least 16 bytes (openssl rand -base64 32 prints a good one)",
		"{keys: [{id: a, secret: 'base64:MDEyMzQ1Njc4OWFiY2Rl'}]}":                 "secret must have at least 16 bytes (openssl rand -base64 32 prints a good one)",
		"{keys: [{id: a, secret: '-----BEGIN PUBLIC KEY-----'}]}":                  "secret is PEM, which is no secret: whoever has the public key could sign (openssl rand -base64 32 prints a good one)",
		"{keys: [{id: a, secret: 'base64:LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0='}]}": "secret is PEM, which is no secret: whoever has the public key could sign (openssl rand -base64 32 prints a good one)",
		"{keys: [{id: a, secret: 'base64:!'}]}":                                    "secret is not valid base64 after base64:",
		"{keys: [" + key + ", " + key + "]}":                                       "the key a is here twice (remove one of them)",
		"{keys: [{id: 'ä', secret: 0123456789abcdef}]}":                            "id must be of visible ASCII characters and spaces",
		"{keys: [{id: a, secret: 0123456789abcdef, consumer: \"\\x00\"}]}":         "consumer must be a name of at most 256 bytes without control characters",
		"{keys: [" + key + "], algorithm: md5}":                                    `algorithm must be hmac-sha256, hmac-sha384, hmac-sha512 or hmac-sm3, not "md5"`,
		"{keys: [" + key + "], components: []}":                                    "components is empty, so that a signature would do for any request (leave it out for [@method, @path, @query])",
		"{keys: [" + key + "], components: ['@status']}":                           "@status is not a component that can be verified here (known are @method, @path, @query, @authority, @scheme, @target-uri, @request-target)",
		"{keys: [" + key + "], components: [Date]}":                                "a component must be the name of a header field in lower case, or begin with @",
		"{keys: [" + key + "], components: [date, date]}":                          "date is here twice (remove one of them)",
		"{keys: [" + key + "], clock_skew: 500ms}":                                 "clock_skew must be at least 1s, not 500ms (signatures count whole seconds)",
		"{keys: [" + key + "], clock_skew: 2000000h}":                              "clock_skew must be at most 24h (set the clocks: for that long whoever has seen a request can send it again)",
		"{keys: [" + key + "], nonce: {max: 0}}":                                   "max must be at least 1, not 0",
		"{keys: [" + key + "], nonce: {store: main, max: 9}}":                      "max is about memory, and the nonces are in the store main (remove it)",
		"{keys: [" + key + "], nonce: {store: mian}}":                              `there is no store "mian" (did you mean "main"?)`,
		"{keys_file: keys.yaml}":                                                   "keys.yaml:1: secret must have at least 16 bytes (openssl rand -base64 32 prints a good one)",
	} {
		b.write("keys.yaml", "- {id: a, secret: sesame123}\n")
		_, problems := b.resolve(options)
		if len(problems) != 1 || !strings.HasSuffix(problems[0], ": "+want) {
			t.Errorf("%s:\n got %q\nwant %s", options, problems, want)
		}
		if strings.Contains(strings.Join(problems, ""), "sesame123") {
			t.Errorf("%s: a secret is told: %q", options, problems)
		}
	}
}
