//go:build !linux

package server

import (
	"errors"
	"syscall"
)

// deafen is for systems that have a filter for it.
func deafen(syscall.RawConn) error { return errors.ErrUnsupported }
