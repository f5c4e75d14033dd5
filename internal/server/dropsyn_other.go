//go:build !linux

package server

import (
	"errors"
	"syscall"
)

// dropSYN is for systems that have a filter for it.
func dropSYN(syscall.RawConn) error { return errors.ErrUnsupported }
