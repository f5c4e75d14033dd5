package netloop

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Zones are numbers, which need no look-up.
func TestZones(t *testing.T) {
	link := [16]byte{0: 0xfe, 1: 0x80, 15: 1}
	// There is no such interface, so that only its number can be told.
	for zone, want := range map[uint32]string{0: "[fe80::1]:80", 987654: "[fe80::1%987654]:80"} {
		if got := addrOf(&unix.SockaddrInet6{Port: 80, ZoneId: zone, Addr: link}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for address, want := range map[string]uint32{"[fe80::1]:80": 0, "[fe80::1%987654]:80": 987654, "[fe80::1%lo]:80": loopback(t)} {
		_, to, err := socketAddress("tcp", address)
		if six, ok := to.(*unix.SockaddrInet6); err != nil || !ok || six.ZoneId != want || six.Addr != link {
			t.Errorf("%s is %v, %v", address, to, err)
		}
	}
	if _, _, err := socketAddress("tcp", "[fe80::1%nosuch]:80"); err == nil {
		t.Error("a zone that does not exist has a number")
	}
}

func loopback(t *testing.T) uint32 {
	t.Helper()
	device, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("no loopback interface:", err)
	}
	return uint32(device.Index)
}

// A zone in an address to be dialed is looked up aside.
func TestDialZone(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		if _, err := x.Dial(context.Background(), "tcp", "[fe80::1%nosuch]:1", time.Time{}); err == nil {
			t.Error("a zone that does not exist can be dialed")
		}
	})
}
