//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// outcome is what the client tells of one load; the names are its own
// (load/load.c).
type outcome struct {
	Requests   int64   `json:"requests"`
	Seconds    float64 `json:"seconds"`
	Scheduled  int64   `json:"scheduled"` // with a rate: how many were due
	Unfinished int64   `json:"unfinished"`

	WrongStatus int64 `json:"wrong_status"`
	WrongLength int64 `json:"wrong_length"`
	Broken      int64 `json:"broken"`
	Forgotten   int64 `json:"forgotten"`
	Resumed     int64 `json:"resumed"` // handshakes of TLS

	P50  int64 `json:"p50_ns"`
	P99  int64 `json:"p99_ns"`
	P999 int64 `json:"p999_ns"`
	Max  int64 `json:"max_ns"`

	CPU         int64 `json:"cpu_ns"`
	UserTicks   int64 `json:"user_ticks"`
	SystemTicks int64 `json:"system_ticks"`
}

// kept tells whether the proxy bore the rate: all but a hundredth of what was
// due was answered.
func (o *outcome) kept() bool { return o.Requests*100 >= o.Scheduled*99 }

func (o *outcome) perSecond() float64 { return float64(o.Requests) / o.Seconds }

// cpu is processor time per request, in µs.
func (o *outcome) cpu() float64 { return float64(o.CPU) / 1000 / float64(o.Requests) }

// user and system are its parts. The kernel samples them.
func (o *outcome) user() float64 {
	if o.UserTicks+o.SystemTicks == 0 {
		return 0
	}
	return o.cpu() * float64(o.UserTicks) / float64(o.UserTicks+o.SystemTicks)
}

func (o *outcome) system() float64 { return o.cpu() - o.user() }

// client runs the programs that make load.
type client struct {
	program string // of HTTP/1.1
	h2load  string // of HTTP/2, where rates are unknown
}

// put puts load on the address and calls held while the connections are still
// open. A rate of 0 saturates. Any wrong answer is an error.
func (c client) put(ctx context.Context, address string, l load, rate float64, warm, duration time.Duration, ids []int, held func() error) (*outcome, error) {
	if l.streams > 0 {
		return c.putStreams(ctx, address, l, warm, duration, ids, held)
	}
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }
	arguments := append([]string{"-a", address, "-w", seconds(warm), "-d", seconds(duration)}, l.arguments()...)
	if rate > 0 {
		arguments = append(arguments, "-r", strconv.FormatFloat(rate, 'f', 1, 64))
	}
	if len(ids) > 0 {
		var text []string
		for _, id := range ids {
			text = append(text, strconv.Itoa(id))
		}
		arguments = append(arguments, "-p", strings.Join(text, ","))
	}
	command := exec.CommandContext(ctx, c.program, arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var complaints strings.Builder
	command.Stderr = &complaints
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	var heldErr error
	if readErr == nil && held != nil {
		heldErr = held()
	}
	_ = in.Close()
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("load %s: %w: %s%s", strings.Join(arguments, " "), err, complaints.String(), line)
	}
	if err := errors.Join(readErr, heldErr); err != nil {
		return nil, err
	}
	o := &outcome{}
	if err := json.Unmarshal([]byte(line), o); err != nil {
		return nil, fmt.Errorf("load: %w: %s", err, line)
	}
	if !l.idle && rate == 0 && o.Requests == 0 {
		return nil, fmt.Errorf("load %s: not one request in time", strings.Join(arguments, " "))
	}
	// The first of each connection cannot be, and one is under way at either end.
	if l.resumed && o.Requests > o.Resumed+2*int64(l.connections) {
		return nil, fmt.Errorf("load: of %d sessions only %d were resumed", o.Requests, o.Resumed)
	}
	if len(ids) > 0 && !l.idle && o.CPU == 0 {
		return nil, fmt.Errorf("load: processes %v took no time", ids)
	}
	return o, nil
}
