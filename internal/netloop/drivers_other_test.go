//go:build unix && !linux

package netloop

func drivers() []kind { return []kind{goroutines} }
