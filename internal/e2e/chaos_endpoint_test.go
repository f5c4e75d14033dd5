package e2e

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/internal/gatewaytest"
)

var endpointBinary = sync.OnceValues(func() (string, error) { return buildInto("sluice/internal/e2e/testdata/endpoint") })

// mortal is an endpoint in a process of its own, which can be killed, stopped,
// and told to fail (testdata/endpoint). Its port stays its own over restarts.
type mortal struct {
	t       *testing.T
	name    string
	address string
	url     string
	command *exec.Cmd
	to      io.WriteCloser
	from    *bufio.Reader
}

func newMortal(t *testing.T, name string) *mortal {
	t.Helper()
	m := &mortal{t: t, name: name, address: gatewaytest.HeldPort(t)}
	m.url = "http://" + m.address
	m.start()
	t.Cleanup(m.kill)
	return m
}

// start runs the process, and waits until it serves.
func (m *mortal) start() {
	m.t.Helper()
	m.command = exec.Command(built(m.t, endpointBinary), m.name, m.address)
	to, err := m.command.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	from, err := m.command.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	m.command.Stderr = m.t.Output()
	if err := m.command.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.to, m.from = to, bufio.NewReader(from)
	m.hear("serves")
}

// kill ends the process by SIGKILL, also a stopped one.
func (m *mortal) kill() {
	_ = m.command.Process.Kill() // it may have ended
	_ = m.command.Wait()         // by a signal, which is no news
	_ = m.to.Close()
}

// signal sends one to the process.
func (m *mortal) signal(s syscall.Signal) {
	m.t.Helper()
	if err := m.command.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// tell has the endpoint behave in another way from now on.
func (m *mortal) tell(behaviour string) {
	m.t.Helper()
	if _, err := io.WriteString(m.to, behaviour+"\n"); err != nil {
		m.t.Fatal(err)
	}
	m.hear(behaviour)
}

// hear waits for a line of the process.
func (m *mortal) hear(want string) {
	m.t.Helper()
	line, err := m.from.ReadString('\n')
	if err != nil || strings.TrimSuffix(line, "\n") != want {
		m.t.Fatalf("endpoint %s says %q, %v, not %q", m.name, line, err, want)
	}
}
