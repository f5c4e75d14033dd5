package config_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/config"
)

// A check that may look at the disk finds what the gateway could not make;
// one that may not is content.
func TestPlacesOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for text, want := range map[string]string{
		listen + "access_log: {output: new}":                             "",
		listen + "access_log: {output: file}":                            "",
		listen + "access_log: {output: stdout}":                          "",
		listen + "access_log: {output: /dev/null}":                       "",
		listen + "access_log: {output: none/new}":                        `output cannot be made: its directory "DIR/none" does not exist`,
		listen + "access_log: {output: file/new}":                        `output cannot be made: "DIR/file" is not a directory`,
		listen + "access_log: {output: .}":                               `output cannot be made at "DIR": this is a directory, not a file`,
		"listeners: {web: {address: 'unix:new'}}":                        "",
		"listeners: {web: {address: 'unix:socket'}}":                     "",
		"listeners: {web: {address: 'unix:file'}}":                       `the socket cannot be made at "DIR/file": what is there is not a socket`,
		"listeners: {web: {address: 'unix:none/s'}}":                     `the socket cannot be made: its directory "DIR/none" does not exist`,
		listen + "admin: {address: 'unix:none/s'}":                       `the socket cannot be made: its directory "DIR/none" does not exist`,
		listen + "routes: [{match: {path: /}, upstream: 'unix:none/s'}]": "", // it may come later
	} {
		documents := []config.Document{{Name: "it.yaml", Dir: dir, Data: []byte(text)}}
		if problems := config.Resolve(documents, testKinds(), config.Environment{}).Problems; problems != nil {
			t.Errorf("%s: %v", text, problems)
		}
		got := ""
		for _, p := range config.Resolve(documents, testKinds(), config.Environment{Stat: os.Stat}).Problems {
			got += strings.ReplaceAll(p.Message, dir, "DIR")
			if p.Line == 0 {
				t.Errorf("%v: without a place", p)
			}
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
