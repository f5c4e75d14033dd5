package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/model"
	"sluice/internal/server"
)

// Variables that tell a new binary what it inherits.
const (
	socketsVariable   = "SLUICE_INHERIT_SOCKETS" // network|address, separated by newlines, in the order of the descriptors
	readyVariable     = "SLUICE_INHERIT_READY"   // the descriptor to close once ready
	pseudonymVariable = "SLUICE_INHERIT_PSEUDONYM"
)

// firstInherited is the descriptor after standard input, output and error.
const firstInherited = 3

// takeOverTimeout bounds how long a new binary may take until it serves.
const takeOverTimeout = time.Minute

// Sockets are listening sockets that a process before handed over, by what they
// were bound to: several where the system chose their ports. The zero value has
// none.
type Sockets struct {
	Pseudonym string // of the process group; empty: a new group
	inherited map[string][]*os.File
	ready     *os.File
	ports     server.Ports
}

// Inherit takes what a process before handed to this one by its environment,
// and removes that from the environment.
func Inherit() (*Sockets, error) {
	given := map[string]string{}
	for _, variable := range []string{socketsVariable, readyVariable, pseudonymVariable} {
		given[variable], _ = os.LookupEnv(variable)
		if err := os.Unsetenv(variable); err != nil {
			return nil, fmt.Errorf("inherited sockets: %w", err)
		}
	}
	s := &Sockets{Pseudonym: given[pseudonymVariable], inherited: map[string][]*os.File{}}
	ready := given[readyVariable]
	if ready == "" {
		return s, nil
	}
	descriptor, err := strconv.Atoi(ready)
	if err != nil {
		return nil, fmt.Errorf("inherited sockets: %s: %w", readyVariable, err)
	}
	s.ready = os.NewFile(uintptr(descriptor), "ready")
	for i, name := range strings.Split(given[socketsVariable], "\n") {
		s.inherited[name] = append(s.inherited[name], os.NewFile(uintptr(firstInherited+i), name))
	}
	return s, nil
}

// Listen returns the inherited socket of an address, or binds a new one.
func (s *Sockets) Listen(network, address string) (net.Listener, error) {
	key := network + "|" + address
	if files := s.inherited[key]; len(files) > 0 {
		s.inherited[key] = files[1:]
		listener, err := net.FileListener(files[0])
		if err := errors.Join(err, files[0].Close()); err != nil {
			return nil, err
		}
		return s.ports.Keep(address, listener), nil
	}
	return s.ports.Listen(network, address)
}

// expect says what a gateway will listen on: its other sockets are about to
// close, and their ports may be listened on otherwise.
func (s *Sockets) expect(gateway *model.Gateway) {
	addresses := []string{gateway.Admin.Address}
	for _, m := range gateway.Listeners {
		addresses = append(addresses, m.Address)
	}
	s.ports.Expect(addresses)
}

// Done says that this process serves: the one before may stop. Sockets that no
// listener has asked for are closed.
func (s *Sockets) Done() {
	for _, files := range s.inherited {
		for _, socket := range files {
			_ = socket.Close() // of a listener that the configuration no longer has
		}
	}
	s.inherited = nil
	if s.ready != nil {
		_, _ = s.ready.Write([]byte{1}) // the process before has ended already
		_ = s.ready.Close()
		s.ready = nil
	}
}

// HandOver starts the binary that is now at this one's path, with this one's
// arguments and its sockets, and waits until it serves. streams are its
// standard input, output and error. Then this process drains: Run returns once
// clients have gone over to the new one, or drain_timeout is over. After an error
// it goes on as if nothing had been.
func (g *Gateway) HandOver(ctx context.Context, streams [3]*os.File) (err error) {
	names, files, err := g.socketFiles()
	defer func() {
		if err != nil {
			g.takeBack()
		}
	}()
	defer func() {
		for _, f := range files {
			_ = f.Close() // duplicates; the child has its own
		}
	}()
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the binary: %w", err)
	}
	binary = strings.TrimSuffix(binary, " (deleted)") // Linux, when it was replaced
	wait, ready, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("a pipe to the new process: %w", err)
	}
	defer func() { _ = wait.Close() }()
	command := exec.CommandContext(context.WithoutCancel(ctx), binary, os.Args[1:]...) //nolint:gosec // our own binary, with our own arguments
	command.Stdin, command.Stdout, command.Stderr = streams[0], streams[1], streams[2]
	command.ExtraFiles = append(append([]*os.File{}, files...), ready)
	command.Env = append(os.Environ(),
		socketsVariable+"="+strings.Join(names, "\n"),
		readyVariable+"="+strconv.Itoa(firstInherited+len(files)),
		pseudonymVariable+"="+g.builder.Pseudonym)
	err = command.Start()
	_ = ready.Close() // the child's end
	if err != nil {
		return fmt.Errorf("starting the new binary: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- command.Wait() }()
	served := make(chan bool, 1)
	go func() {
		_, err := io.ReadFull(wait, make([]byte, 1))
		served <- err == nil
	}()
	timeout := time.NewTimer(takeOverTimeout)
	defer timeout.Stop()
	select {
	case ok := <-served:
		if ok {
			g.log.Info("a new process has taken over", "pid", command.Process.Pid)
			g.enter(yielding)
			return nil
		}
		return fmt.Errorf("the new process ended before it served: %w", <-exited)
	case <-timeout.C:
		err = errors.New("the new process did not serve in time")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, command.Process.Kill(), <-exited)
}

// socketFiles duplicates the sockets of the serving snapshot, in the order in
// which a new process asks for them.
func (g *Gateway) socketFiles() (names []string, files []*os.File, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.current.Load()
	if s == nil {
		return nil, nil, errors.New("nothing serves yet")
	}
	if g.phase > running {
		return nil, nil, errEnding
	}
	add := func(address string, file func() (*os.File, error)) {
		f, failed := file()
		if failed == nil {
			f, failed = inheritable(f)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("the socket of %s: %w", address, failed))
			return
		}
		name := "tcp|" + address
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			name = "unix|" + path
		}
		names, files = append(names, name), append(files, f)
	}
	for i, m := range s.Gateway.Listeners {
		add(m.Address, s.Listeners[i].File)
	}
	add(s.Gateway.Admin.Address, g.admin.File)
	return names, files, err
}

// takeBack says that no other process has the sockets, after all.
func (g *Gateway) takeBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.current.Load(); s != nil && g.phase != yielding {
		for _, listener := range s.Listeners {
			listener.TakeBack()
		}
		g.admin.TakeBack()
	}
}

// inheritable returns the same descriptor as a file that a child can be given.
// os/exec would make that of a duplicated socket blocking, and with it the
// socket of this process, whose accept could then not be ended.
func inheritable(socket *os.File) (*os.File, error) {
	defer func() { _ = socket.Close() }() // it is a duplicate
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var copied int
	var failed error
	if err := raw.Control(func(fd uintptr) { copied, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, failed
	}
	return os.NewFile(uintptr(copied), socket.Name()), nil
}
