package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const small = `listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes:
  - {id: ping, match: {path: /ping}, respond: {status: 200, body: pong}}
`

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name, content, want string // want: what is printed, but for the file's name
		code                int
	}{
		{"valid", small, "FILE is valid: 1 listener, 1 route, 0 upstreams\n", 0},
		{
			"an unknown key", "listeners: {web: {address: \":0\"}}\nroutes:\n  - match: {path: /x}\n    respnd: {status: 200}\n",
			"FILE:4:5: unknown key \"respnd\"\n  hint: did you mean \"respond\"?\n        respnd: {status: 200}\n        ^\n", 1,
		},
		{
			"a name that is nearly one", "listeners: {web: {address: \":0\"}}\nupstreams: {both: {endpoints: [\"http://127.0.0.1:1\"]}}\nroutes:\n  - {match: {path: /x}, upstream: bth}\n",
			"FILE:4:35: there is no upstream \"bth\"\n  hint: did you mean \"both\"?\n      - {match: {path: /x}, upstream: bth}\n                                      ^\n", 1,
		},
		{
			"a route that can never match", "listeners: {web: {address: \":0\"}}\nroutes:\n  - {id: all, priority: 1, match: {path_prefix: /}, respond: {status: 200}}\n  - {id: buried, priority: 2, match: {path: /x}, respond: {status: 200}}\n",
			"FILE:4:5: warning: route \"buried\" can never match: route \"all\" (FILE:3:5) comes first and takes every request that it would\n  hint: give it a smaller priority, or remove it\n" +
				"      - {id: buried, priority: 2, match: {path: /x}, respond: {status: 200}}\n        ^\nFILE is valid: 1 listener, 2 routes, 0 upstreams\n", 0,
		},
		{"an option that comes later", "listeners: {web: {address: \":0\"}}\nroutes: []\ntracing: {}\n", "not supported yet", 1},
		{
			"a log without a directory", "listeners: {web: {address: \":0\"}}\naccess_log: {output: /none/here/access.log}\n",
			"FILE:2:22: output cannot be made: its directory \"/none/here\" does not exist\n  hint: make the directory first\n    access_log: {output: /none/here/access.log}\n                         ^\n", 1,
		},
		{"an admin API for everyone without a token", "listeners: {web: {address: \":0\"}}\nadmin: {address: \"0.0.0.0:0\"}\nroutes: []\n", "token", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "it.yaml", test.content)
			got := sluice(t, dir, "validate", "-c", "it.yaml")
			text := got.stderr + got.stdout
			if want := strings.ReplaceAll(test.want, "FILE", "it.yaml"); got.code != test.code || !strings.Contains(text, want) {
				t.Errorf("status %d, want %d, and\n%s\nwant\n%s", got.code, test.code, text, want)
			}
			if got.code != 0 && got.stdout != "" {
				t.Errorf("standard output has %q", got.stdout)
			}
		})
	}
}

func TestEveryCommandTellsProblems(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "it.yaml", small+"  - {match: {path: /x}, upstream: none}\n")
	for _, args := range [][]string{{"run"}, {"validate"}, {"routes"}, {"routes", "-o", "json"}, {"explain", "GET", "/x"}} {
		got := sluice(t, dir, append(args, "-c", "it.yaml")...)
		if got.code != 1 || got.stdout != "" || strings.Count(got.stderr, "it.yaml:5:") != 1 || !strings.Contains(got.stderr, "^\n") || strings.Contains(got.stderr, "level=ERROR") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// TestCommandsTellNoSecret: what is wrong with a secret is told without it.
func TestCommandsTellNoSecret(t *testing.T) {
	for _, middleware := range []string{
		"jwt: {issuers: [{issuer: a, secret: l-e-t-m-e-i-n}]}",
		"jwt: {issuers: [{issuer: a, secrt: l-e-t-m-e-i-n}]}",
		"hmac_auth: {keys: [{id: a, secret: l-e-t-m-e-i-n}]}",
		"basic_auth: {users: [{name: ann, hash: l-e-t-m-e-i-n}]}",
		"basic_auth: {users: ['ann:l-e-t-m-e-i-n']}",
		"api_key: {keys: [{key: l-e-t-m-e-i-n, consumer: a}]}",
		"api_key: {keys: [l-e-t-m-e-i-n]}",
		"api_key: {keys_file: keys.yaml}",
		"external_auth: {http: {url: 'http://u:l-e-t-m-e-i-n@auth.test'}}",
		"external_auth: {http: {url: 'http://u:l-e-t-m-e-i-n/@auth.test:x'}}",
		"jwt: {issuers: [{issuer: a, secret: l-e-t-m-e-i-n",
	} {
		dir := t.TempDir()
		write(t, dir, "keys.yaml", "[l-e-t-m-e-i-n]")
		write(t, dir, "it.yaml", small+"  - {match: {path: /x}, respond: {status: 204}, middleware: [{"+middleware+"}]}\n")
		for _, args := range [][]string{{"run"}, {"validate"}, {"explain", "GET", "/x"}} {
			got := sluice(t, dir, append(args, "-c", "it.yaml")...)
			if text := got.stdout + got.stderr; got.code != 1 || !strings.Contains(text, "^\n") || strings.Contains(text, "l-e-t-m-e-i-n") {
				t.Errorf("%s, %v: %+v", middleware, args, got)
			}
		}
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty.yaml", "")
	write(t, dir, "blank.yaml", "\ufeff \n\t\n")
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "secret.yaml", small)
	if err := os.Chmod(filepath.Join(dir, "secret.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	nobody := asNobody(t, dir)
	for file, want := range map[string]string{
		"none.yaml":      "none.yaml: the file does not exist\n",
		"none/none.yaml": "none/none.yaml: the file does not exist\n",
		"directory":      "directory: this is a directory, not a file\n",
		".":              ".: this is a directory, not a file\n",
		"secret.yaml":    "secret.yaml: the file may not be read by this user\n",
		"empty.yaml":     "empty.yaml: the file is empty\n",
		"blank.yaml":     "blank.yaml: the file is empty\n",
	} {
		for _, args := range [][]string{{"run"}, {"validate"}} {
			c := command{dir: dir}
			if file == "secret.yaml" {
				c.credential = nobody
			}
			got := c.run(t, append(args, "-c", file)...)
			if got.code != 1 || got.stdout != "" || got.stderr != want {
				t.Errorf("%v -c %s: %+v, want %q", args, file, got, want)
			}
		}
	}
}

// A command that reads the file once takes it from a pipe; the gateway, which
// reads it again, says that it cannot.
func TestFileFromAPipe(t *testing.T) {
	for _, test := range []struct {
		args           string // separated by spaces
		code           int
		stdout, stderr string
	}{
		{"validate", 0, "/dev/stdin is valid: 1 listener, 1 route, 0 upstreams\n", ""},
		{"routes", 0, "ping", ""},
		{"explain GET /ping", 0, "status 200", ""},
		{"run", 1, "", "/dev/stdin: this is a pipe, not a regular file\n  hint: save it to a file, which can be read again on each reload\n"},
	} {
		c := command{dir: t.TempDir(), stdin: small}
		if got := c.run(t, append(strings.Split(test.args, " "), "-c", "/dev/stdin")...); got.code != test.code || !strings.Contains(got.stdout, test.stdout) || got.stderr != test.stderr {
			t.Errorf("%s: got %+v", test.args, got)
		}
	}
}

// asNobody lets a user who is not root look into a directory, and returns that
// user; nil where the test is run by one.
func asNobody(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, path := range []string{dir, filepath.Dir(dir)} { // the latter is made for the owner alone
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &syscall.Credential{Uid: 65534, Gid: 65534}
}

func TestDefaultFile(t *testing.T) {
	dir := t.TempDir()
	want := "sluice: no configuration: neither sluice.yaml nor /etc/sluice/sluice.yaml is there; name one with -c, or write one with 'sluice init'\n"
	for _, name := range []string{"run", "validate"} {
		if _, err := os.Stat(systemFile); err == nil {
			continue // this machine has one
		}
		if got := sluice(t, dir, name); got.code != 1 || got.stderr != want || got.stdout != "" {
			t.Errorf("sluice %s without a file: %+v", name, got)
		}
	}
	write(t, dir, "sluice.yaml", small)
	if got := sluice(t, dir, "validate"); got.code != 0 || got.stdout != "sluice.yaml is valid: 1 listener, 1 route, 0 upstreams\n" {
		t.Errorf("sluice validate beside sluice.yaml: %+v", got)
	}
	// A file that is there but cannot be read is not passed over.
	write(t, dir, "sluice.yaml", "")
	if got := sluice(t, dir, "validate"); got.code != 1 || got.stderr != "sluice.yaml: the file is empty\n" {
		t.Errorf("sluice validate beside an empty sluice.yaml: %+v", got)
	}
}

func TestInit(t *testing.T) {
	for _, test := range []struct {
		file string
		args []string
	}{{"sluice.yaml", nil}, {"other.yaml", []string{"other.yaml"}}} {
		dir := t.TempDir()
		got := sluice(t, dir, append([]string{"init"}, test.args...)...)
		want := "wrote FILE\ncheck it: sluice validate -c FILE\nserve it: sluice run -c FILE\n"
		if want = strings.ReplaceAll(want, "FILE", test.file); got.code != 0 || got.stdout != want {
			t.Errorf("init %v: %+v", test.args, got)
		}
		path := filepath.Join(dir, test.file)
		if got := sluice(t, dir, "validate", "-c", test.file); got.code != 0 || got.stderr != "" {
			t.Errorf("what init writes: %+v", got)
		}
		if text := read(t, path); !strings.Contains(text, "\n#") && !strings.HasPrefix(text, "#") {
			t.Errorf("what init writes has no comments:\n%s", text)
		}
		write(t, dir, test.file, "mine")
		got = sluice(t, dir, append([]string{"init"}, test.args...)...)
		if want := "sluice: " + test.file + " is there already and stays as it is; name another file\n"; got.code != 1 || got.stderr != want || got.stdout != "" {
			t.Errorf("a second init: %+v", got)
		}
		if text := read(t, path); text != "mine" {
			t.Errorf("init overwrote a file: %q", text)
		}
	}
	dir := t.TempDir()
	if err := os.Symlink("nowhere", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if got := sluice(t, dir, "init", "link.yaml"); got.code != 1 {
		t.Errorf("init over a link that leads nowhere: %+v", got)
	}
	if got := sluice(t, dir, "init", "none/x.yaml"); got.code != 1 || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("init into a missing directory: %+v", got)
	}
}
