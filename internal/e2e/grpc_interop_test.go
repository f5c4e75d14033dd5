package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"sluice/internal/gatewaytest"
)

// gRPC's own interop client and server.
var (
	interopClient = sync.OnceValues(func() (string, error) { return buildPeer("google.golang.org/grpc/interop/client", "grpc-client") })
	interopServer = sync.OnceValues(func() (string, error) { return buildPeer("google.golang.org/grpc/interop/server", "grpc-server") })
)

// buildPeer builds a program that is another's.
func buildPeer(pkg, name string) (string, error) {
	dir, err := binaryDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if out, err := exec.CommandContext(context.Background(), "go", "-C", "../../tools/peers", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// startInteropServer runs gRPC's server and returns its URL.
func startInteropServer(t *testing.T) string {
	t.Helper()
	command := exec.Command(built(t, interopServer), "-port", "0")
	command.Env = append(os.Environ(), "GRPC_GO_LOG_SEVERITY_LEVEL=info")
	out, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = command.Process.Kill() // it ends in no other way
		<-drained
		_ = command.Wait()
	})
	listening := regexp.MustCompile(`interop server listening on .*:(\d+)\s*$`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			go func() {
				defer close(drained)
				_, _ = io.Copy(io.Discard, out)
			}()
			return "http://127.0.0.1:" + found[1]
		}
	}
	close(drained)
	t.Fatal("the interop server does not listen")
	return ""
}

// interopCases are those that apply: the others are about credentials of a cloud,
// or ask for an identity that this server does not tell.
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server", "cancel_after_begin",
	"cancel_after_first_response", "status_code_and_message", "special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
	"orca_per_rpc", "orca_oob", "rpc_soak", "channel_soak",
}

// TestInterop has gRPC's client call gRPC's server.
func TestInterop(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server is there for HTTP/1.1 alone")
	}
	gw := startCallGateway(t, fmt.Sprintf("upstreams: {interop: {protocol: h2c, endpoints: [%q]}}\nroutes: [{match: {path_prefix: /grpc.testing.TestService}, upstream: interop}, {match: {path_prefix: /xds.service.orca.v3.OpenRcaService}, upstream: interop}]\n", startInteropServer(t)))
	client := built(t, interopClient)
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			for _, name := range interopCases {
				t.Run(name, func(t *testing.T) {
					t.Parallel() // most of their time is a process's beginning
					_, port, err := net.SplitHostPort(gw.Addr(way).String())
					if err != nil {
						t.Fatal(err)
					}
					arguments := []string{"-server_host", "127.0.0.1", "-server_port", port, "-test_case", name,
						"-soak_iterations", "20", "-soak_overall_timeout_seconds", "60", "-soak_per_iteration_max_acceptable_latency_ms", "30000"}
					if strings.HasPrefix(name, "orca_") {
						arguments = append(arguments, "-service_config_json", `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`)
					}
					if way == "websecure" {
						arguments = append(arguments, "-use_tls", "-ca_file", gw.authority, "-use_test_ca", "-server_host_override", callHost)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 3*gatewaytest.Patience)
					defer cancel()
					var said bytes.Buffer
					command := exec.CommandContext(ctx, client, arguments...)
					command.Stdout, command.Stderr = &said, &said
					if err := command.Run(); err != nil {
						t.Errorf("%v\n%s", err, &said)
					}
				})
			}
		})
	}
}
