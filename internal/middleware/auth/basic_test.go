package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// bcrypted is a hash that is cheap to check.
func bcrypted(t testing.TB, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func basic(text string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(text))
}

const basicChallenge = `Basic realm="restricted", charset="UTF-8"`

func TestBasic(t *testing.T) {
	long := strings.Repeat("p", longestPassword)
	b := newBed(t, Basic(), fmt.Sprintf(`{users: [
  {name: Aladdin, hash: "%s", tier: gold, groups: [a, b]}, {name: test, hash: "%s"}, {name: ann, hash: "%s"}, {name: colon, hash: "%s"}, {name: long, hash: "%s"}]}`,
		bcrypted(t, "open sesame"), bcrypted(t, "123\u00a3"), bcrypted(t, ""), bcrypted(t, "a:b"), bcrypted(t, long)))
	for _, c := range []struct {
		what   string
		fields []string
		want   string // the consumer, or nothing where it is refused
	}{
		{"RFC 7617 2", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, "Aladdin"},
		{"RFC 7617 2.1", []string{"Authorization: Basic dGVzdDoxMjPCow=="}, "test"},
		{"the scheme in other case", []string{"authorization: bAsIc QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, "Aladdin"},
		{"several spaces", []string{"Authorization: Basic   QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, "Aladdin"},
		{"an empty password that is right", []string{basic("ann:")}, "ann"},
		{"a password with a colon", []string{basic("colon:a:b")}, "colon"},
		{"a long password", []string{basic("long:" + long)}, "long"},
		{"a longer one that bcrypt takes for it", []string{basic("long:" + long + "x")}, ""},
		{"nothing", nil, ""},
		{"an empty field", []string{"Authorization: "}, ""},
		{"the scheme alone", []string{"Authorization: Basic"}, ""},
		{"no credentials", []string{"Authorization: Basic "}, ""},
		{"another scheme", []string{"Authorization: Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, ""},
		{"a longer scheme", []string{"Authorization: BasicX QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, ""},
		{"a tab for a space", []string{"Authorization: Basic\tQWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, ""},
		{"twice", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, ""},
		{"with another one", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "authorization: Bearer x"}, ""},
		{"as a list", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==, Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="}, ""},
		{"the user alone", []string{basic("Aladdin")}, ""},
		{"nobody", []string{basic(":open sesame")}, ""},
		{"another password", []string{basic("Aladdin:open sesam")}, ""},
		{"another user's", []string{basic("test:open sesame")}, ""},
		{"an unknown user", []string{basic("Jafar:open sesame")}, ""},
		{"a user in other case", []string{basic("aladdin:open sesame")}, ""},
		{"the hash of nobody", []string{basic("Jafar:")}, ""},
		{"a zero byte that bcrypt does not see", []string{basic("ann:\x00")}, ""},
		{"a period of what bcrypt sees", []string{basic("Aladdin:open sesame\x00open sesame")}, ""},
		{"a line break", []string{basic("Aladdin:open sesame\n")}, ""},
		{"without padding", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ"}, ""},
		{"with bits that are not zero", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZR=="}, ""},
		{"something behind", []string{"Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== x"}, ""},
		{"no base64", []string{"Authorization: Basic Aladdin:open sesame"}, ""},
		{"base64 of URLs", []string{"Authorization: Basic -_-_"}, ""},
		{"much", []string{"Authorization: Basic " + strings.Repeat("QWxh", 1000)}, ""},
	} {
		got, err := b.serve(request("/", c.fields...))
		switch {
		case c.want == "":
			b.refused(c.what, err, basicChallenge)
		case err != nil || got.Name != c.want || b.came.Consumer != c.want:
			t.Errorf("%s: %+v, %v", c.what, got, err)
		case len(b.came.Request.Fields) != 1:
			t.Errorf("%s: the password does not go on", c.what)
		}
	}
	want := &pipeline.Principal{Name: "Aladdin", Tier: "gold", Groups: []string{"a", "b"}}
	got, _ := b.serve(request("/", basic("Aladdin:open sesame")))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBasicOptions(t *testing.T) {
	b := newBed(t, Basic(), `{realm: 'the "inner\" circle', forward: false, users: [{name: ann, hash: "`+bcrypted(t, "p")+`"}]}`)
	_, err := b.serve(request("/"))
	b.refused("nothing", err, `Basic realm="the \"inner\\\" circle", charset="UTF-8"`)
	if _, err := b.serve(request("/", basic("ann:p"), "X: y")); err != nil || len(b.came.Request.Fields) != 1 {
		t.Errorf("%v; the request has %v", err, b.came)
	}
}

// TestBasicFile changes the passwords of users of a file: what was verified before with
// another hash is forgotten.
func TestBasicFile(t *testing.T) {
	b := newBed(t, Basic(), "{users_file: users}", "users", "\ufeff# ours\r\n\r\nann:"+bcrypted(t, "old")+"\r\n  bob:"+strings.Replace(bcrypted(t, "b"), "$2a$", "$2y$", 1)+"  \n")
	for range 2 {
		for _, text := range []string{"ann:old", "bob:b"} {
			if got, err := b.serve(request("/", basic(text))); err != nil || got.Name != text[:3] {
				t.Errorf("%s: %+v, %v", text, got, err)
			}
		}
	}
	before, _ := b.resolve("{users_file: users}")
	b.write("users", "ann:"+bcrypted(t, "new")+"\n")
	after, _ := b.resolve("{users_file: users}")
	if model.Text(before.Routes[0]) == model.Text(after.Routes[0]) {
		t.Error("the route with other users is taken for the same")
	}
	b.load("{users_file: users}")
	for _, text := range []string{"ann:old", "bob:b", "# ours:"} {
		_, err := b.serve(request("/", basic(text)))
		b.refused(text, err, basicChallenge)
	}
	if _, err := b.serve(request("/", basic("ann:new"))); err != nil {
		t.Error(err)
	}
}

// TestNobody: the hash that stands for users who are not there costs as much as the
// dearest, and is one that bcrypt checks to the end.
func TestNobody(t *testing.T) {
	for range 100 {
		hash := []byte(unmatched(5))
		if cost, problem := costOf(string(hash)); cost != 5 || problem != "" {
			t.Fatalf("%s: %d, %s", hash, cost, problem)
		}
	}
	if err := bcrypt.CompareHashAndPassword([]byte(unmatched(4)), []byte("x")); !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		t.Error(err)
	}
	dear, err := bcrypt.GenerateFromPassword([]byte("x"), 6)
	if err != nil {
		t.Fatal(err)
	}
	settings := validateBasic(&BasicOptions{Users: []UserOptions{{Name: "a", Hash: bcrypted(t, "x")}, {Name: "b", Hash: string(dear)}}}, func(path, message, _ string) { t.Error(path, message) })
	if cost, _ := costOf(settings.nobody.hash); cost != 6 {
		t.Errorf("nobody costs %d", cost)
	}
}

// TestUnknownUsersAreChecked: where nobody may check, an unknown user waits as a known
// one does.
func TestUnknownUsersAreChecked(t *testing.T) {
	hash := bcrypted(t, "p")
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, Basic(), "{users: [{name: ann, hash: '"+hash+"'}]}")
		set := b.registry.NewSet()
		t.Cleanup(set.Release)
		p := acquirePasswords(set)
		for range cap(p.slots) {
			p.slots <- struct{}{}
		}
		for _, text := range []string{"ann:x", "nobody:x", ":"} {
			start := time.Now()
			if _, err := b.serve(request("/", basic(text))); err == nil || err.Word != pipeline.AuthUnavailable || time.Since(start) != maxWait {
				t.Errorf("%s: after %v: %v", text, time.Since(start), err)
			}
		}
	})
}

func TestBasicProblems(t *testing.T) {
	hash, how := "'"+bcrypted(t, "p")+"'", " (htpasswd -nB NAME, or mkpasswd -m bcrypt, prints one)"
	wanted := "hash must be of bcrypt: it begins with $2a$, $2b$ or $2y$" + how
	b := newBed(t, Basic(), "{users: [{name: a, hash: "+hash+"}]}")
	for options, want := range map[string]string{
		"{}":                                    "basic_auth has no users, so that nobody could pass (write users: [{name: NAME, hash: '$2y$…'}], or users_file)",
		"{users: [{name: a, hash: sesame123}]}": wanted,
		"{users: [{name: a, hash: '{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ='}]}":         wanted,
		"{users: [{name: a, hash: '$apr1$x$y'}]}":                                 wanted,
		"{users: [{name: a, hash: '" + strings.Replace(hash[1:], "2a", "2x", 1):   "",
		"{users: [{name: a, hash: '$2y$05$sesame123'}]}":                          wanted,
		"{users: [{name: a, hash: '$2y$05$" + strings.Repeat("!", 53) + "'}]}":    wanted,
		"{users: [{name: a, hash: '$2y$17$" + strings.Repeat("a", 53) + "'}]}":    "hash has the cost 17, and every check would take that long; 16 is the most" + how,
		"{users: [{name: 'a:b', hash: " + hash + "}]}":                            "name must not have a colon, which ends it (RFC 7617)",
		"{users: [{name: '', hash: " + hash + "}]}":                               "name is empty (write a name)",
		"{users: [{name: a, hash: " + hash + "}, {name: a, hash: " + hash + "}]}": "the user a is here twice (remove one of them)",
		"{realm: \"a\\nb\", users: [{name: a, hash: " + hash + "}]}":              "realm must be of visible ASCII characters and spaces",
		"{users_file: none}":    "users_file cannot be read: the file does not exist",
		"{users_file: garbage}": "garbage:2: a line must be name:hash (htpasswd -nB NAME prints one)",
		"{users_file: plain}":   "plain:1: " + wanted,
		"{users_file: empty}":   "empty: the file has no users (write one, or leave users_file out)",
		"{users: [{name: ann, hash: " + hash + "}], users_file: empty}": "empty: the file has no users (write one, or leave users_file out)",
		"{users: [{name: ann, hash: " + hash + "}], users_file: good}":  "good:3: the user ann is here twice (remove one of them)",
	} {
		if want == "" {
			options, want = options+"}]}", wanted
		}
		b.write("empty", "\n# none\n", "garbage", "# none\n\x00\xff garbage\n", "plain", "ann:sesame123\n", "good", "\n\nann:"+strings.Trim(hash, "'")+"\n")
		_, problems := b.resolve(options)
		if len(problems) != 1 || !strings.HasSuffix(problems[0], ": "+want) {
			t.Errorf("%s:\n got %q\nwant %s", options, problems, want)
		}
		if strings.Contains(strings.Join(problems, ""), "sesame123") {
			t.Errorf("%s: a password is told: %q", options, problems)
		}
	}
}
