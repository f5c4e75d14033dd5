package discovery

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/internal/model"
)

func TestServersOfTheSystem(t *testing.T) {
	tests := []struct {
		name, resolv string
		servers      string
	}{
		{"in order", "# nameserver 10.0.0.9\nnameserver 10.0.0.1\n; x\nnameserver fe80::1%eth0\nnameserver\n", "10.0.0.1:53 [fe80::1%eth0]:53"},
		{"none", "search a.test\n", "127.0.0.1:53 [::1]:53"},
		{"empty", "", "127.0.0.1:53 [::1]:53"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, "", test.resolv, nil)
			got, err := b.servers()
			if err != nil || strings.Join(got.Servers, " ") != test.servers {
				t.Errorf("%q, %v, want %s", got.Servers, err, test.servers)
			}
		})
	}
}

func TestWithoutTheFilesOfTheSystem(t *testing.T) {
	z := newZone(t, "users.internal. 60 A 10.0.0.1")
	b := newBed(t, "", "", map[string]*zone{"127.0.0.1:53": z})
	for _, path := range []string{b.system.hosts, b.resolv} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	b.expect(users(), "10.0.0.1:8080x1 for 1m0s")
}

func TestFilesThatCannotBeRead(t *testing.T) {
	b := one(t, newZone(t, "users.internal. 60 A 10.0.0.1"))
	for _, path := range []*string{&b.system.hosts, &b.resolv} {
		good := *path
		*path = t.TempDir()
		b.fails(users(), *path, "directory")
		*path = good
	}
	b.expect(users(), "10.0.0.1:8080x1 for 1m0s")
}

func TestFilesAreReadAtEachLookUp(t *testing.T) {
	b := newBed(t, "", "nameserver 10.0.0.1\n", map[string]*zone{
		"10.0.0.1:53": newZone(t, "users.internal. 60 A 10.0.0.1"),
		"10.0.0.2:53": newZone(t, "users.internal. 60 A 10.0.0.2"),
	})
	r := &resolver{system: b.system}
	expect := func(want string) {
		t.Helper()
		if got := text(r.lookup(t.Context(), users())); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	expect("10.0.0.1:8080x1 for 1m0s")
	b.write(b.resolv, "nameserver 10.0.0.2\n")
	expect("10.0.0.2:8080x1 for 1m0s")
	b.write(b.system.hosts, "10.0.0.3 users.internal\n")
	expect("10.0.0.3:8080x1 for ever")
}

func TestAMachineWithoutAName(t *testing.T) {
	z := newZone(t, "users. 60 A 10.0.0.1")
	b := one(t, z)
	b.hostname = func() (string, error) { return "", errors.New("none") }
	b.expect(&model.DNS{Name: "users", Port: 80}, "10.0.0.1:80x1 for 1m0s")
	asked(t, z, "udp A users.", "udp AAAA users.")
}

func TestThisMachine(t *testing.T) {
	m := machine()
	if !m.routed(t.Context(), netip.MustParseAddr("127.0.0.1")) {
		t.Error("there is no way to this machine")
	}
	// A link-local address says nothing without its link.
	if m.routed(t.Context(), netip.MustParseAddr("fe80::1")) {
		t.Error("there is a way to nowhere")
	}
	hosts, err := m.table()
	if err != nil || !slices.Contains(hosts["localhost"], netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("localhost is %v, %v", hosts["localhost"], err)
	}
	if at, err := m.servers(); err != nil || len(at.Servers) == 0 {
		t.Errorf("servers are %v, %v", at.Servers, err)
	}
	if r := m.random(); r < 0 || r >= 1 {
		t.Errorf("random is %g", r)
	}
}
