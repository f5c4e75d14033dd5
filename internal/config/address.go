package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"sluice/internal/canonical"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// parseAddress reads an address to listen on: host:port, :port or unix:PATH,
// whose path becomes absolute.
func parseAddress(dir, address string) (string, *fault) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return parseUnix(dir, path)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		hint := ""
		switch {
		case validPort(address, 0):
			hint = "write :" + address
		case validHost(address) && !strings.Contains(address, ":"):
			hint = "add a port: " + address + ":8080"
		case strings.Contains(address, "://"):
			hint = "leave out what stands before the host"
		case strings.Count(address, ":") > 1:
			hint = "put an IPv6 address into brackets: [::1]:8080"
		}
		return "", faulty(fmt.Sprintf("must be host:port, :port or unix:PATH, not %s", short(address)), hint)
	}
	switch {
	case !validPort(port, 0):
		return "", faulty(fmt.Sprintf("has the port %s, which is no number from 0 to 65535", short(port)), "")
	case host != "" && !validHost(host):
		return "", faulty(fmt.Sprintf("has the host %s, which is neither an address nor a name", short(host)), "")
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		panic("BUG: a valid port is a number: " + err.Error())
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(number)), nil
}

func parseUnix(dir, path string) (string, *fault) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", faulty("must name the path of a socket after unix:", "")
	}
	path = absolute(dir, path)
	if len(path) > longestSocket {
		return "", faulty(fmt.Sprintf("has a path of %d bytes, and a socket's has %d at most: %s", len(path), longestSocket, short(path)), "give the socket a shorter path")
	}
	return unixPrefix + path, nil
}

// longestSocket is the longest path that a Unix socket can have: sun_path of
// Linux is 108 bytes with the zero at its end.
const longestSocket = 107

func validPort(port string, least int) bool {
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	number, err := strconv.Atoi(port)
	return err == nil && least <= number && number <= 65535
}

// validHost tells whether host is an address without brackets or a host name. A
// name whose last label is a number is meant as an address (RFC 1123 2.1).
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	name := strings.TrimSuffix(host, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	return !strings.Contains(host, ":") && validName(name) && strings.Trim(last, "0123456789") != ""
}

// validName tells whether a name has the labels of a host (RFC 1123 2.1), and
// underscores, which networks of containers use.
func validName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// isLoopback tells whether only this machine can reach an address.
func isLoopback(address string) bool {
	if strings.HasPrefix(address, unixPrefix) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// clash tells whether two addresses cannot both be listened on. Port 0 is
// another port each time; an address for every interface holds the port of all.
func clash(a, b string) bool {
	if strings.HasPrefix(a, unixPrefix) || strings.HasPrefix(b, unixPrefix) {
		return a == b
	}
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	if hostA == hostB {
		return true
	}
	return covers(hostA, hostB) || covers(hostB, hostA)
}

func covers(host, other string) bool {
	switch host {
	case "", "::":
		return true
	case "0.0.0.0":
		ip, err := netip.ParseAddr(other)
		return err != nil || ip.Unmap().Is4()
	}
	return false
}

// parseHost reads a host of a match: a name, an address, or *.name.
func parseHost(host string, wildcard bool) (string, *fault) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		name = name[1 : len(name)-1]
	}
	rest, isWildcard := strings.CutPrefix(name, "*.")
	_, addressErr := netip.ParseAddr(name)
	switch {
	case addressErr == nil:
		return name, nil
	case strings.Contains(host, "://"):
		return "", faulty(fmt.Sprintf("must be a host alone, not the URL %s", short(host)), "")
	case strings.Contains(name, ":"):
		return "", faulty(fmt.Sprintf("must be a host without a port, not %s", short(host)), fmt.Sprintf("write %q: ports do not count for matching", canonical.Host(host)))
	case strings.Contains(rest, "*") || strings.Contains(name, "*") && !isWildcard:
		hint := "a wildcard stands in front, as in *.example.com"
		if name == "*" {
			hint = "leave hosts out to match any"
		}
		return "", faulty(fmt.Sprintf("has a * that is not in front: %s", short(host)), hint)
	case isWildcard && !wildcard:
		return "", faulty(fmt.Sprintf("must be one host, not the wildcard %s", short(host)), "")
	case !validName(rest):
		return "", faulty(fmt.Sprintf("must be a host name or an address, not %s", short(host)), nonASCIIHint(host))
	}
	return name, nil
}

// nonASCIIHint is how a name with other letters is written (RFC 5890 2.3.2.1).
func nonASCIIHint(host string) string {
	if !strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return ""
	}
	name, isWildcard := strings.CutPrefix(host, "*.")
	ascii, err := idna.Lookup.ToASCII(name)
	switch {
	case err != nil || !validName(ascii):
		return "write it in its ASCII form, which begins with xn--"
	case isWildcard:
		ascii = "*." + ascii
	}
	return "write its ASCII form, " + ascii
}
