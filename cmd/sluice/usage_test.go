package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args   string // separated by spaces
		code   int
		stdout string // contained
		stderr string // contained
	}{
		{"", 2, "Available Commands:", "sluice: a command is missing\nRun 'sluice --help' for usage.\n"},
		{"explode", 2, "", "sluice: no command is called \"explode\"\nRun 'sluice --help' for usage.\n"},
		{"validat", 2, "", `sluice: no command is called "validat"; did you mean "validate"?`},
		{"--nope", 2, "", "unknown flag: --nope"},
		{"run --nope", 2, "", "sluice: unknown flag: --nope\nRun 'sluice run --help' for usage.\n"},
		{"run sluice.yaml", 2, "", `'sluice run' takes no argument "sluice.yaml"; name the file with -c`},
		{"validate sluice.yaml", 2, "", `name the file with -c`},
		{"routes sluice.yaml", 2, "", `name the file with -c`},
		{"run -c", 2, "", "flag needs an argument"},
		{"run --config=", 2, "", `invalid argument "" for "-c, --config" flag: it is empty`},
		{"validate --config=", 2, "", "it is empty"},
		{"routes --config=", 2, "", "it is empty"},
		{"explain --config= GET /", 2, "", "it is empty"},
		{"explain --ip= GET /", 2, "", "it is empty"},
		{"explain --listener= GET /", 2, "", "it is empty"},
		{"explain G{T /", 2, "", `the method is none such as GET: "G{T"`},
		{"explain GET nope", 2, "", "neither a URL"},
		{"explain --ip nope GET /", 2, "", "ip is no address"},
		{"run -c none.yaml --log-level loud", 2, "", `no level is called "loud"; there are debug, info, warn and error`},
		{"demo now", 2, "", `'sluice demo' takes no argument "now"`},
		{"init a b", 2, "", "'sluice init' writes one file, not 2"},
		{"explain GET", 2, "", "needs a METHOD and a URL"},
		{"explain GET / /", 2, "", "needs a METHOD and a URL"},
		{"explain -c none.yaml GET / -o yaml", 2, "", `no output format is called "yaml"; there are text and json`},
		{"routes -o yaml", 2, "", `no output format is called "yaml"; there are table and json`},
		{"status -o yaml", 2, "", `no output format is called "yaml"`},
		{"status now", 2, "", `'sluice status' takes no argument "now"`},
		{"status --admin ftp://x", 2, "", `--admin: "ftp://x" is no URL such as http://127.0.0.1:9901`},
		{"routes --admin http://", 2, "", "is no URL"},
		{"explain GET / --admin http://", 2, "", "is no URL"},
		{"drain users", 2, "", "'sluice drain' needs the name of an UPSTREAM and the URL of an endpoint; 'sluice status' shows them"},
		{"undrain users a b", 2, "", "'sluice undrain' needs the name of an UPSTREAM"},
		{"drain users http://x --admin http://", 2, "", "is no URL"},
		{"version now", 2, "", "takes no argument"},
		{"schema now", 2, "", "takes no argument"},
		{"help explode", 2, "", `no command is called "explode"`},
		{"help run", 0, "SIGUSR2 hands the sockets", ""},
		{"help completion bash", 0, "bash", ""},
		{"completion", 2, "", "name a shell: bash, fish, powershell or zsh"},
		{"completion csh", 2, "", `no command is called "csh"`},
		{"completion bash x", 2, "", "takes no argument"},
		{"completion bash", 0, "__start_sluice", ""},
		{"completion zsh", 0, "#compdef sluice", ""},
		{"completion fish", 0, "complete -c sluice", ""},
		{"completion powershell", 0, "Register-ArgumentCompleter", ""},
		{"__complete ro", 0, "routes\t", ""},
		{"__complete help st", 0, "status", ""},
		{"__complete routes -o ", 0, "table\njson\n", ""},
		{"__complete explain -o ", 0, "text\njson\n", ""},
		{"version", 0, "sluice v0-test\ncommit abc123\n" + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n", ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			var args []string
			if test.args != "" {
				args = strings.Split(test.args, " ")
			}
			got := sluice(t, dir, args...)
			if got.code != test.code || !strings.Contains(got.stdout, test.stdout) || !strings.Contains(got.stderr, test.stderr) {
				t.Errorf("got %+v, want %+v", got, test)
			}
			if test.stdout == "" && got.stdout != "" {
				t.Errorf("a wrong use prints %q on standard output", got.stdout)
			}
		})
	}
}

func TestHelpOfEveryCommand(t *testing.T) {
	dir := t.TempDir()
	root := newRoot()
	if got := sluice(t, dir, "--help"); got.code != 0 || got.stderr != "" {
		t.Errorf("sluice --help: %+v", got)
	}
	want := map[string]bool{"run": true, "demo": true, "init": true, "validate": true, "routes": true, "explain": true, "status": true, "drain": true, "undrain": true, "schema": true, "version": true}
	for _, command := range root.Commands() {
		delete(want, command.Name())
		got := sluice(t, dir, command.Name(), "--help")
		if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "Usage:\n  sluice "+command.Name()) || !strings.Contains(got.stdout, command.Short) && command.Long == "" {
			t.Errorf("sluice %s --help: %+v", command.Name(), got)
		}
	}
	if len(want) > 0 {
		t.Errorf("there is no command %v", want)
	}
}

func TestSchema(t *testing.T) {
	got := sluice(t, t.TempDir(), "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &schema); err != nil || got.code != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, word := range []string{`"$schema"`, `"path_prefix"`, `"body_limit"`, `"ip_filter"`, `"headers"`} {
		if !strings.Contains(got.stdout, word) {
			t.Errorf("%s is missing", word)
		}
	}
	if got := sluice(t, t.TempDir(), "schema", "--markdown"); got.code != 0 || !strings.HasPrefix(got.stdout, "#") {
		t.Errorf("schema --markdown: %d %.100q %s", got.code, got.stdout, got.stderr)
	}
}
