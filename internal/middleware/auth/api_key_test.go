package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// hashed is a key as the configuration has it.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func keysOf(more string) string {
	return `{keys: [{key: "` + hashed("key-one") + `", consumer: shop, tier: gold, groups: [a, b]}, {key: "` + hashed("key-two") + `", consumer: app}]` + more + "}"
}

func TestAPIKey(t *testing.T) {
	b := newBed(t, APIKeys(), keysOf(""))
	for _, c := range []struct {
		what   string
		fields []string
		want   string // the consumer, or nothing where it is refused
	}{
		{"a key", []string{"X-API-Key: key-one"}, "shop"},
		{"another", []string{"x-api-key: key-two"}, "app"},
		{"none", nil, ""},
		{"an unknown one", []string{"X-API-Key: key-three"}, ""},
		{"an empty one", []string{"X-API-Key: "}, ""},
		{"in other case", []string{"X-API-Key: Key-one"}, ""},
		{"a part of one", []string{"X-API-Key: key-on"}, ""},
		{"one with more", []string{"X-API-Key: key-one1"}, ""},
		{"the digest of one", []string{"X-API-Key: " + hashed("key-one")}, ""},
		{"the digits of its digest", []string{"X-API-Key: " + strings.TrimPrefix(hashed("key-one"), "sha256:")}, ""},
		{"two", []string{"X-API-Key: key-one", "X-API-Key: key-one"}, ""},
		{"two as a list", []string{"X-API-Key: key-one, key-one"}, ""},
		{"another field", []string{"X_API_Key: key-one", "Authorization: key-one"}, ""},
		{"a cookie", []string{"Cookie: X-API-Key=key-one"}, ""},
		{"a long one", []string{"X-API-Key: " + strings.Repeat("k", longestKey+1)}, ""},
	} {
		got, err := b.serve(request("/?X-API-Key=key-one", c.fields...))
		switch {
		case c.want == "":
			b.refused(c.what, err, "ApiKey")
		case err != nil || got.Name != c.want || b.came.Consumer != c.want:
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
	}
	want := &pipeline.Principal{Name: "shop", Tier: "gold", Groups: []string{"a", "b"}}
	got, _ := b.serve(request("/", "X-API-Key: key-one"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if value, _ := b.came.Request.Fields.Find("X-API-Key"); value != "key-one" {
		t.Error("the key does not go on")
	}
}

// TestAPIKeyPlaces looks for the key in each place that it may be in, and takes it out.
func TestAPIKeyPlaces(t *testing.T) {
	for _, c := range []struct {
		from, target, field string
		want                string // what is left: target, and a field, empty for none; "401"
	}{
		{"{header: X-Key}", "/", "x-key: key-one", "/ "},
		{"{header: Authorization, scheme: ApiKey}", "/", "Authorization: apikey  key-one", "/ "},
		{"{header: Authorization, scheme: ApiKey}", "/", "Authorization: Bearer key-one", "401"},
		{"{header: Authorization, scheme: ApiKey}", "/", "Authorization: key-one", "401"},
		{"{header: Authorization, scheme: ApiKey}", "/", "Authorization: ApiKey", "401"},
		{"{header: X-Key}", "/", "X_Key: key-one", "401"},
		{"{query: key}", "/?key=key-one", "X: y", "/ X: y"},
		{"{query: key}", "/?key=key-one&", "X: y", "/ X: y"},
		{"{query: key}", "/?a=%zz&k%65y=key%2Done&&b", "X: y", "/?a=%zz&&b X: y"},
		{"{query: key}", "/?key=key-one&key=key-one", "X: y", "401"},
		{"{query: key}", "/?key=key-one&k%65y=", "X: y", "401"},
		{"{query: key}", "/?key", "X: y", "401"},
		{"{query: key}", "/", "X: y", "401"},
		{"{cookie: key}", "/", "Cookie: key=key-one", "/ "},
		{"{cookie: key}", "/", `Cookie: a=1; key="key-one"; b=2`, "/ Cookie: a=1; b=2"},
		{"{cookie: key}", "/", "Cookie: key=key-one; key=key-two", "401"},
		{"{cookie: key}", "/", "Cookie: KEY=key-one", "401"},
	} {
		b := newBed(t, APIKeys(), keysOf(", forward: false, from: "+c.from))
		_, err := b.serve(request(c.target, c.field))
		if c.want == "401" {
			b.refused(c.from+" "+c.target+" "+c.field, err, "ApiKey")
			continue
		}
		if err != nil {
			t.Errorf("%s %s %s: %v", c.from, c.target, c.field, err)
			continue
		}
		r := b.came.Request
		left := r.Path + r.Query + " "
		for _, f := range r.Fields {
			left += f.Name + ": " + f.Value
		}
		if left != c.want {
			t.Errorf("%s %s %s: %q is left", c.from, c.target, c.field, left)
		}
	}
}

// TestDropOfTrailers: a key does not go on behind the body either.
func TestDropOfTrailers(t *testing.T) {
	b := newBed(t, APIKeys(), keysOf(", forward: false"))
	r := request("/", "X-API-Key: key-one")
	r.Trailer = func() message.Fields {
		return message.Fields{{Name: "x_api-key", Value: "key-one"}, {Name: "X-Sum", Value: "1"}}
	}
	if _, err := b.serve(r); err != nil {
		t.Fatal(err)
	}
	if got := b.came.Request.Trailer(); len(got) != 1 || got[0].Name != "X-Sum" {
		t.Errorf("the trailer has %v", got)
	}
}

// TestDropOfACookie leaves all other fields and cookies as they are.
func TestDropOfACookie(t *testing.T) {
	b := newBed(t, APIKeys(), keysOf(", forward: false, from: {cookie: key}"))
	if _, err := b.serve(request("/", "Key: key-one", "Cookie: a=1; key=key-one", "Cookie: b=2", "Accept: key=key-one")); err != nil {
		t.Fatal(err)
	}
	want := request("/", "Key: key-one", "Cookie: a=1", "Cookie: b=2", "Accept: key=key-one").Fields
	if diff := cmp.Diff(want, b.came.Request.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestAPIKeyFile(t *testing.T) {
	entry := "- {key: '" + hashed("key-one") + "', consumer: shop}\n"
	b := newBed(t, APIKeys(), "{keys_file: keys.yaml}", "keys.yaml", "# ours\n"+entry)
	if got, err := b.serve(request("/", "X-API-Key: key-one")); err != nil || got.Name != "shop" {
		t.Errorf("%+v, %v", got, err)
	}
	before, _ := b.resolve("{keys_file: keys.yaml}")
	b.write("keys.yaml", strings.ReplaceAll(entry, hashed("key-one"), hashed("key-two")))
	after, _ := b.resolve("{keys_file: keys.yaml}")
	if model.Text(before.Routes[0]) == model.Text(after.Routes[0]) {
		t.Error("the route with other keys is taken for the same")
	}
	b.load("{keys_file: keys.yaml}")
	_, err := b.serve(request("/", "X-API-Key: key-one"))
	b.refused("a key that is gone", err, "ApiKey")
	if _, err := b.serve(request("/", "X-API-Key: key-two")); err != nil {
		t.Error(err)
	}
}

func TestAPIKeyProblems(t *testing.T) {
	one, digest := `key: "`+hashed("a")+`"`, "key must be the digest of a key: sha256: and 64 hexadecimal digits (printf %s KEY | sha256sum prints them)"
	b := newBed(t, APIKeys(), keysOf(""))
	for options, want := range map[string]string{
		"{}":                                    "api_key has no keys, so that nobody could pass (write keys: [{key: 'sha256:…', consumer: NAME}], or keys_file)",
		"{keys: [{key: key-one, consumer: a}]}": digest,
		"{keys: [{key: sha256:abc, consumer: a}]}":                               digest,
		"{keys: [{key: 'sha256:" + strings.Repeat("g", 64) + "', consumer: a}]}": digest,
		"{keys: [{key: 'sha512:" + strings.Repeat("0", 64) + "', consumer: a}]}": digest,
		"{keys: [{" + one + ", consumer: ''}]}":                                  "consumer is empty (write a name)",
		"{keys: [{" + one + ", consumer: \"a\\nb\"}]}":                           "consumer must be a name of at most 256 bytes without control characters",
		"{keys: [{" + one + ", consumer: " + strings.Repeat("a", 257) + "}]}":    "consumer must be a name of at most 256 bytes without control characters",
		"{keys: [{" + one + ", consumer: a, tier: \"\\x7f\"}]}":                  "tier must be a name of at most 256 bytes without control characters",
		"{keys: [{" + one + ", consumer: a, groups: [b, '']}]}":                  "groups[1] is empty (write a name)",
		"{keys: [{" + one + ", consumer: a}, {" + one + ", consumer: b}]}":       "the same key is here twice (remove one of them)",
		"{keys: [{" + one + "}]}":                                                "keys[0] needs the key consumer",
		"{keys: [{" + one + ", consumer: a}], from: {}}":                         "from must name one place (write {header: NAME}, {cookie: NAME} or {query: NAME})",
		"{keys: [{" + one + ", consumer: a}], from: {header: a, query: b}}":      "from must name one place (write {header: NAME}, {cookie: NAME} or {query: NAME})",
		"{keys: [{" + one + ", consumer: a}], from: {query: a, scheme: b}}":      "scheme is for header fields (remove it)",
		"{keys: [{" + one + ", consumer: a}], from: {header: 'a b'}}":            `the name "a b" is not valid`,
		"{keys: [{" + one + ", consumer: a}], from: {header: a, scheme: 'a b'}}": `the scheme "a b" is not valid`,
		"{keys: [{" + one + ", consumer: a}], from: {header: Connection}}":       "the field Connection belongs to the connection: no credential can be there",
		"{keys: [{" + one + ", consumer: a}], from: {header: host}}":             "the field host belongs to the connection: no credential can be there",
		"{keys_file: none}":     "keys_file cannot be read: the file does not exist",
		"{keys_file: bad.yaml}": "bad.yaml:2: " + digest,
		"{keys: [{" + one + ", consumer: a}], keys_file: twice.yaml}": "twice.yaml:3: the same key is here twice (remove one of them)",
	} {
		b.write("bad.yaml", "# plain\n- {key: key-one, consumer: a}\n", "twice.yaml", "\n\n- {"+one+", consumer: a}\n")
		_, problems := b.resolve(options)
		if len(problems) != 1 || !strings.HasSuffix(problems[0], ": "+want) {
			t.Errorf("%s:\n got %q\nwant %s", options, problems, want)
		}
		if strings.Contains(strings.Join(problems, ""), "key-one") {
			t.Errorf("%s: a key is told: %q", options, problems)
		}
	}
}
