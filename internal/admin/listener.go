package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/server"
)

// Listener is the address on which the API answers. It is held on lease by its
// address, so that a reload leaves it alone.
type Listener struct {
	address string
	listen  func(network, address string) (net.Listener, error)
	log     *slog.Logger
	server  *http.Server

	yielding atomic.Bool // another process serves the address

	mu     sync.Mutex
	socket *server.Socket
	handed bool // another process has the socket too
}

// Acquire returns the listener of an address: host:port or unix:PATH.
func Acquire(set *lease.Set, address string, api *API, listen func(network, address string) (net.Listener, error)) *Listener {
	return lease.Acquire(set, "admin "+address, func() *Listener {
		l := &Listener{address: address, listen: listen, log: api.log}
		l.server = &http.Server{
			Handler:           l.closing(api),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(api.log.Handler(), slog.LevelDebug),
		}
		return l
	})
}

// closing has answers close their connections once another process serves the
// address.
func (l *Listener) closing(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.yielding.Load() {
			w.Header().Set("Connection", "close")
		}
		api.ServeHTTP(w, r)
	})
}

// Start binds the address and answers from then on.
func (l *Listener) Start() error {
	socket, err := server.Bind(l.address, l.listen)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socket = socket
	go func() {
		if err := l.server.Serve(socket.Listener()); !errors.Is(err, http.ErrServerClosed) && !l.yielding.Load() {
			l.log.Error("the admin API stopped", "address", l.address, "error", err)
		}
	}()
	return nil
}

// Yield accepts no more, for a process whose socket another one serves by now.
func (l *Listener) Yield() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yielding.Store(true)
	_ = l.socket.Listener().Close() // the other process has it
}

// Release lets answers under way finish and closes the socket, without waiting.
func (l *Listener) Release() {
	l.mu.Lock()
	if !l.handed {
		l.socket.Remove()
	}
	socket := l.socket
	l.mu.Unlock()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		socket.Part(ctx)
		if l.server.Shutdown(ctx) != nil { // a profile may run for longer
			_ = l.server.Close()
		}
	}()
}

// Addr is the bound address, after Start.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket.Listener().Addr()
}

// File duplicates the socket for a new binary; the caller closes it. From then
// on the file of a Unix socket stays when this listener ends.
func (l *Listener) File() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := l.socket.Duplicate()
	l.handed = l.handed || err == nil
	return file, err
}

// TakeBack undoes a File that came to nothing: no other process has the socket.
func (l *Listener) TakeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handed = false
}
