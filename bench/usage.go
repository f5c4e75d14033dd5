//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// usage is the processor time that processes have taken: exact in sum; the parts
// are sampled, in clock ticks.
type usage struct {
	total        time.Duration
	user, system int64
}

// usageOf reads it for processes, as load/load.c does.
func usageOf(ids []int) (sum usage, err error) {
	for _, id := range ids {
		total, err := processorTime(id)
		if err != nil {
			return sum, fmt.Errorf("processor time of process %d: %w", id, err)
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return sum, err
		}
		// The name, in parentheses, may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 13 {
			return sum, fmt.Errorf("stat of process %d: %q", id, stat)
		}
		user, err := strconv.ParseInt(fields[11], 10, 64)
		if err != nil {
			return sum, err
		}
		system, err := strconv.ParseInt(fields[12], 10, 64)
		if err != nil {
			return sum, err
		}
		sum.total += total
		sum.user += user
		sum.system += system
	}
	return sum, nil
}

// processorTime asks the clock of a process, whose number is made of its id
// (clock_getcpuclockid(3)).
func processorTime(id int) (time.Duration, error) {
	const scheduled = 2
	var t syscall.Timespec
	clock := uintptr(int32(^id<<3 | scheduled))
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		return 0, errno
	}
	return time.Duration(t.Nano()), nil
}
