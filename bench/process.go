//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement, with whatever it started itself.
type process struct {
	command *exec.Cmd
	log     string // the file with what it printed
	ended   chan struct{}
}

// start runs a program with its output in a file of its directory. It gets a
// process group of its own, so that Ctrl-C in a terminal reaches only this
// program, which then ends it in order.
func start(ctx context.Context, directory string, arguments []string) (*process, error) {
	p := &process{log: filepath.Join(directory, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.command = exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	// Asked, not killed: a master that is killed leaves its workers behind.
	p.command.Cancel = func() error { return p.command.Process.Signal(syscall.SIGTERM) }
	p.command.Dir = directory
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stop asks the program to end, and ends it if it does not.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(3 * time.Second):
		// Its whole group, which is its own: a master's workers too.
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL)
		<-p.ended
	}
}

// printed is the end of what the program printed.
func (p *process) printed() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// waitReady waits until something accepts connections at the address.
func (p *process) waitReady(ctx context.Context, address string) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.command.Path, p.printed())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not listen: %w: %s", p.command.Path, err, p.printed())
		}
	}
}

// family waits until the process and its descendants are so many, and lists
// their ids: a master may listen before it has its workers.
func (p *process) family(ctx context.Context, processes int) ([]int, error) {
	for deadline := time.Now().Add(10 * time.Second); ; {
		ids, err := family(p.command.Process.Pid)
		if err != nil || len(ids) == processes {
			return ids, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s runs as %d processes instead of %d: %s", p.command.Path, len(ids), processes, p.printed())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// family lists the ids of a process and its descendants.
func family(root int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		// The name, in parentheses, may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 {
			parents[id], _ = strconv.Atoi(fields[1])
		}
	}
	ids := []int{root}
	for i := 0; i < len(ids); i++ {
		for id, parent := range parents {
			if parent == ids[i] && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// resident is the memory of processes in bytes: what is theirs alone, and their
// share of what several of them map.
func resident(ids []int) (sum int64, err error) {
	for _, id := range ids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", id))
		if err != nil {
			return 0, err
		}
		found := false
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
				if err != nil {
					return 0, err
				}
				sum += kib << 10
				found = true
			}
		}
		if !found {
			return 0, errors.New("no Pss in smaps_rollup")
		}
	}
	return sum, nil
}

// ports hands out free ports, each once, below those that the kernel gives to
// outgoing connections: thousands of these come and go here.
type ports struct{ next int }

func (p *ports) address(ctx context.Context) (string, error) {
	for range 5000 {
		if p.next < 12000 || p.next >= 30000 {
			p.next = 12000 + os.Getpid()%10000
		}
		p.next++
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.next))
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("no free port")
}

// raiseLimit allows this process and those it starts as many descriptors as may
// be had, and tells how many.
func raiseLimit() (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = min(limit.Max, 65536)
	limit.Max = limit.Cur
	return int(limit.Cur), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
