//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HTTP/2 is put on by h2load, closed and saturating: each stream sends its next
// request when the last answer is whole. It counts by itself from its start to
// its end; what is counted here is a window within that, by the file in which it
// notes every answer.

// window is when processor time was read, before and after.
type window struct {
	begin, end    time.Time
	before, after usage
}

// putStreams is put for HTTP/2.
func (c client) putStreams(ctx context.Context, address string, l load, warm, duration time.Duration, ids []int, held func() error) (*outcome, error) {
	// How much longer it runs than it has to, so that the window is over before.
	const margin = 500 * time.Millisecond
	directory, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	notes := filepath.Join(directory, "answers")
	whole := warm + duration + margin
	ctx, cancel := context.WithTimeout(ctx, whole+20*time.Second)
	defer cancel()
	arguments := []string{
		"-t", "1", "--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--groups=X25519", "-c", strconv.Itoa(l.connections), "-m", strconv.Itoa(l.streams),
		"-D", strconv.FormatInt(whole.Milliseconds(), 10) + "ms", "--log-file=" + notes, l.url(address),
	}
	command := exec.CommandContext(ctx, c.h2load, arguments...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		return nil, err
	}
	var endErr error
	ended := make(chan struct{})
	go func() {
		endErr = command.Wait()
		close(ended)
	}()
	fault := func(err error) error {
		return fmt.Errorf("h2load %s: %w: %s", strings.Join(arguments, " "), err, said.String())
	}
	w, watchErr := watch(ctx, notes, ended, warm, duration, ids, held)
	if watchErr != nil {
		cancel()
	}
	<-ended
	if err := errors.Join(watchErr, endErr); err != nil {
		return nil, fault(err)
	}
	if err := checkSummary(said.String(), l); err != nil {
		return nil, fault(err)
	}
	file, err := os.Open(notes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	o, err := w.outcome(file)
	if err == nil && len(ids) > 0 && o.CPU == 0 {
		err = fmt.Errorf("processes %v took no time", ids)
	}
	if err != nil {
		return nil, fault(err)
	}
	return o, nil
}

// watch waits for the first answer and for the warm-up, and sees the window
// through.
func watch(ctx context.Context, notes string, ended <-chan struct{}, warm, duration time.Duration, ids []int, held func() error) (w window, err error) {
	wait := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return errors.New("it ended too early")
		case <-time.After(d):
			return nil
		}
	}
	for {
		if info, err := os.Stat(notes); err == nil && info.Size() > 0 {
			break
		}
		if err := wait(2 * time.Millisecond); err != nil {
			return w, err
		}
	}
	if err := wait(warm); err != nil {
		return w, err
	}
	w.begin = time.Now()
	if w.before, err = usageOf(ids); err != nil {
		return w, err
	}
	if err := wait(duration); err != nil {
		return w, err
	}
	w.end = time.Now()
	if w.after, err = usageOf(ids); err != nil {
		return w, err
	}
	if held != nil {
		return w, held()
	}
	return w, nil
}

// outcome counts the answers of the window. A line of the file is when a request
// was sent (µs of Unix time), its status, and how long its answer took (µs).
func (w window) outcome(notes io.Reader) (*outcome, error) {
	begin, end := w.begin.UnixMicro(), w.end.UnixMicro()
	var took []int64
	lines := bufio.NewScanner(notes)
	for lines.Scan() {
		var sent, status, micros int64
		if _, err := fmt.Sscanf(lines.Text(), "%d\t%d\t%d", &sent, &status, &micros); err != nil {
			return nil, fmt.Errorf("its file of answers: %q: %w", lines.Text(), err)
		}
		if status < 200 || status > 299 {
			return nil, fmt.Errorf("an answer has status %d", status)
		}
		if at := sent + micros; at > begin && at <= end {
			took = append(took, micros*1000)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(took) == 0 {
		return nil, errors.New("not one request in time")
	}
	slices.Sort(took)
	quantile := func(q float64) int64 { return took[min(int(q*float64(len(took))), len(took)-1)] }
	return &outcome{
		Requests: int64(len(took)), Seconds: w.end.Sub(w.begin).Seconds(),
		P50: quantile(.5), P99: quantile(.99), P999: quantile(.999), Max: took[len(took)-1],
		CPU:       int64(w.after.total - w.before.total),
		UserTicks: w.after.user - w.before.user, SystemTicks: w.after.system - w.before.system,
	}, nil
}

var (
	saidRequests = regexp.MustCompile(`(?m)^requests: \d+ total, (\d+) started, (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$`)
	saidTraffic  = regexp.MustCompile(`(?m)^traffic: .*\((\d+)\) data$`)
	saidProtocol = regexp.MustCompile(`(?m)^Application protocol: (\S+)$`)
)

// checkSummary reads what h2load says at its end. Only requests that were under
// way then may have had a part of their answer.
func checkSummary(said string, l load) error {
	requests, traffic, protocol := saidRequests.FindStringSubmatch(said), saidTraffic.FindStringSubmatch(said), saidProtocol.FindStringSubmatch(said)
	if requests == nil || traffic == nil || protocol == nil {
		return errors.New("it did not say what came of it")
	}
	var n [4]int64
	for i, digits := range []string{requests[1], requests[2], requests[3], traffic[1]} {
		var err error
		if n[i], err = strconv.ParseInt(digits, 10, 64); err != nil {
			return err
		}
	}
	started, done, succeeded, data := n[0], n[1], n[2], n[3]
	length := int64(l.length)
	want := "h2c"
	if l.tls {
		want = "h2"
	}
	switch {
	case protocol[1] != want:
		return fmt.Errorf("it spoke %s instead of %s", protocol[1], want)
	case requests[4] != "0" || requests[5] != "0" || requests[6] != "0" || succeeded != done:
		return errors.New("not every request has the right answer")
	case data < done*length || data > started*length:
		return fmt.Errorf("%d whole answers, of %d requests, have %d bytes: another length than %d", done, started, data, length)
	}
	return nil
}
