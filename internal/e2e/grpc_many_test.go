package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/internal/gatewaytest"
)

var callsBinary = sync.OnceValues(func() (string, error) { return buildInto("sluice/internal/e2e/testdata/calls") })

// manyCalls are held at once, over so many connections of clients.
const (
	manyCalls        = 10_000
	manyCallsClients = 50
)

// partner is a process that talks by lines.
type partner struct {
	t      *testing.T
	to     io.WriteCloser
	from   *bufio.Reader
	failed bytes.Buffer
	wait   func() error
}

func startPartner(t *testing.T, arguments ...string) *partner {
	t.Helper()
	command := exec.Command(built(t, callsBinary), arguments...)
	p := &partner{t: t}
	command.Stderr = &p.failed
	to, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p.to, p.from, p.wait = to, bufio.NewReader(from), sync.OnceValue(command.Wait)
	t.Cleanup(func() {
		to.Close()
		_ = p.wait() // it ends with its standard input; the test has what it wanted
	})
	return p
}

func (p *partner) hear() string {
	p.t.Helper()
	line, err := p.from.ReadString('\n')
	if err != nil {
		_ = p.wait() // what it has told is of more use
		p.t.Fatalf("the partner says no more: %v\n%s", err, &p.failed)
	}
	return strings.TrimSuffix(line, "\n")
}

// TestManyCalls holds ten thousand streams at once, and reloads meanwhile.
func TestManyCalls(t *testing.T) {
	endpoint := startPartner(t, "serve")
	config := fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
access_log: {output: none}
upstreams: {calls: {protocol: h2c, endpoints: [%q]}}
routes:
  - {id: calls, match: {path_prefix: /test.Calls}, upstream: calls}
`, endpoint.hear())
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), config)
	client := startPartner(t, "hold", gw.Addr("web"), strconv.Itoa(manyCalls), strconv.Itoa(manyCallsClients))
	if said := client.hear(); said != "held" {
		t.Fatalf("the client says %q", said)
	}
	if active := gw.Metric("gateway_active_requests"); active != manyCalls {
		t.Errorf("%v requests are active", active)
	}
	if runtime.GOOS == "linux" {
		t.Logf("%d calls: %d KiB each", manyCalls, gw.Memory("VmRSS")/manyCalls>>10)
	}
	gw.Load(config + "  - {id: other, match: {path: /other}, respond: {status: 200}}\n")
	if _, err := io.WriteString(client.to, "on\n"); err != nil {
		t.Fatal(err)
	}
	if said := client.hear(); said != "done" {
		t.Fatalf("the client says %q", said)
	}
	if err := client.wait(); err != nil {
		t.Errorf("the client ended with %v\n%s", err, &client.failed)
	}
	gatewaytest.WaitFor(t, "nothing is under way", func() bool { return gw.Metric("gateway_active_requests") == 0 })
}
