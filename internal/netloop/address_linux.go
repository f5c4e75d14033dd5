package netloop

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketAddress is what a network's address is to the kernel. It may block where
// the address has a zone.
func socketAddress(network, address string) (family int, to unix.Sockaddr, err error) {
	if network == "unix" {
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: address}, nil
	}
	literal, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, nil, fmt.Errorf("dial %s %s: %w", network, address, err)
	}
	if ip := literal.Addr().Unmap(); ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(literal.Port()), Addr: ip.As4()}, nil
	}
	to6 := &unix.SockaddrInet6{Port: int(literal.Port()), Addr: literal.Addr().As16()}
	if zone := literal.Addr().Zone(); zone != "" {
		index, err := strconv.Atoi(zone)
		if err != nil {
			var device *net.Interface
			if device, err = net.InterfaceByName(zone); err != nil {
				return 0, nil, fmt.Errorf("dial %s %s: %w", network, address, err)
			}
			index = device.Index
		}
		to6.ZoneId = uint32(index)
	}
	return unix.AF_INET6, to6, nil
}

// addrOf is a kernel's address as net has it, but for the name of a zone, which is
// its number here: to look that up could hold up a loop, for each client.
func addrOf(name unix.Sockaddr) net.Addr {
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port)))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(name.Addr)
		if name.ZoneId != 0 {
			ip = ip.WithZone(strconv.FormatUint(uint64(name.ZoneId), 10))
		}
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(name.Port)))
	case *unix.SockaddrUnix:
		return &net.UnixAddr{Name: name.Name, Net: "unix"}
	}
	return nil
}

// peerOf is addrOf for what accept(2) tells.
func peerOf(name syscall.Sockaddr) net.Addr {
	switch name := name.(type) {
	case *syscall.SockaddrInet4:
		return addrOf(&unix.SockaddrInet4{Port: name.Port, Addr: name.Addr})
	case *syscall.SockaddrInet6:
		return addrOf(&unix.SockaddrInet6{Port: name.Port, ZoneId: name.ZoneId, Addr: name.Addr})
	case *syscall.SockaddrUnix:
		return addrOf(&unix.SockaddrUnix{Name: name.Name})
	}
	return nil
}

// familyOf is the family of a socket with such an address.
func familyOf(address net.Addr) int {
	if _, ok := address.(*net.UnixAddr); ok {
		return unix.AF_UNIX
	}
	return unix.AF_INET
}

// localOf is the address of a socket's own end; nil, if it is not known.
func localOf(descriptor int) net.Addr {
	name, err := unix.Getsockname(descriptor)
	if err != nil {
		return nil
	}
	return addrOf(name)
}

// bequeath gives a listening socket what its connections inherit, but for those
// that wait in its queue already.
func bequeath(address net.Addr, descriptor int) { options(familyOf(address), descriptor) }

// options sets what every stream socket of ours has.
func options(family, descriptor int) {
	if family == unix.AF_UNIX {
		return
	}
	// A socket without them works, only slower to answer or to notice the dead.
	_ = unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15)
	_ = unix.SetsockoptInt(descriptor, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15)
}
