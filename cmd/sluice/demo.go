package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/provider"
	"sluice/internal/telemetry"
)

//go:embed demo.yaml
var demoYAML string

// The ports that a demonstration uses where they are free.
const (
	demoWebPort   = 8080
	demoAdminPort = 9901
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Serve an embedded configuration with three embedded services, and say what to try",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			words, err := startDemo(ctx)
			if err != nil {
				return err
			}
			stdout, stderr := telemetry.NewSharedWriter(cmd.OutOrStdout()), telemetry.NewSharedWriter(cmd.ErrOrStderr())
			log, endLog := processLog(stderr, levelOfDemo)
			defer endLog()
			document := config.Document{Name: "demo.yaml", Provider: "demo", Data: []byte(expand(demoYAML, words))}
			gateway := app.New(app.Options{Source: fixed{document}, Log: log, Stdout: stdout, Stderr: stderr})
			go func() {
				select {
				case <-gateway.Serving():
					printDemo(stdout, words["DEMO_WEB"], words["DEMO_ADMIN"])
				case <-ctx.Done():
				}
			}()
			return serve(cmd, gateway, log)
		},
	}
}

// startDemo starts the services and picks the gateway's addresses; the words
// are what the configuration names.
func startDemo(ctx context.Context) (map[string]string, error) {
	words := map[string]string{}
	for word, service := range map[string]http.Handler{
		"DEMO_USERS":     usersService(),
		"DEMO_ORDERS":    ordersService("v1"),
		"DEMO_ORDERS_V2": ordersService("v2"),
	} {
		address, err := startService(ctx, service)
		if err != nil {
			return nil, err
		}
		words[word] = "http://" + address
	}
	for word, port := range map[string]int{"DEMO_WEB": demoWebPort, "DEMO_ADMIN": demoAdminPort} {
		address, err := freeAddress(ctx, port)
		if err != nil {
			return nil, err
		}
		words[word] = address
	}
	return words, nil
}

func startService(ctx context.Context, handler http.Handler) (string, error) {
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("a demo service: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(socket) }() // ends with ctx
	return socket.Addr().String(), nil
}

// freeAddress is a loopback address with the first free port from one on.
func freeAddress(ctx context.Context, from int) (string, error) {
	for port := from; port < from+100; port++ {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			return address, socket.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return "", err
		}
	}
	return "", fmt.Errorf("no port from %d to %d is free", from, from+99)
}

func expand(text string, words map[string]string) string {
	var pairs []string
	for word, value := range words {
		pairs = append(pairs, "${"+word+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// fixed is a source of one document that never changes.
type fixed struct{ document config.Document }

func (f fixed) Name() string { return f.document.Provider }

func (f fixed) Run(ctx context.Context, out func(provider.Update)) error {
	out(provider.Update{Source: f.document.Provider, Documents: []config.Document{f.document}})
	<-ctx.Done()
	return nil
}

func (fixed) Watch([]string) {}
func (fixed) Reload()        {}

func printDemo(w io.Writer, web, admin string) {
	_, _ = fmt.Fprintf(w, `
Sluice serves a demonstration. Try:

  curl -i http://%[1]s/users/42                        a path parameter, back as X-User
  curl -i http://%[1]s/orders/7                        two versions, three to one: see X-Backend-Version
  curl -i -H 'X-Preview: 1' http://%[1]s/orders/7      a field chooses the route
  curl -N http://%[1]s/events                          server-sent events, as they come
  curl -i http://%[1]s/customers/42                    a redirect
  curl -i -d "$(head -c 2000 /dev/zero | tr '\0' x)" http://%[1]s/upload   too large: a problem document
  curl -i http://%[1]s/nowhere                         no route: another one

  curl 'http://%[2]s/_gateway/explain?url=/orders/7'   which route, and why not the others
  curl http://%[2]s/metrics                            metrics
  http://%[2]s/                                        the dashboard

Ctrl-C ends it.

`, web, admin) // a terminal that is gone has nothing to try
}
