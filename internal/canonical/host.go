package canonical

import (
	"net/netip"
	"strings"
)

// Host returns the form of an authority in which hosts are compared: without
// port and last dot, in lower case, an IPv6 literal without brackets.
func Host(authority string) string {
	host := authority
	if strings.HasPrefix(host, "[") {
		if end := strings.IndexByte(host, ']'); end > 0 {
			return strings.ToLower(host[1:end])
		}
		return strings.ToLower(host)
	}
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 {
		host = host[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// ValidAuthority tells whether s is a host with an optional port as RFC 3986
// 3.2.2 has it, without user information: what may stand in Host and in
// X-Forwarded-Host. An empty string is not.
func ValidAuthority(s string) bool {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return false
		}
		address, err := netip.ParseAddr(s[1:end])
		if err != nil || !address.Is6() || address.Zone() != "" {
			return false
		}
		rest := s[end+1:]
		if rest == "" {
			return true
		}
		if rest[0] != ':' {
			return false
		}
		return validPort(rest[1:])
	}
	if colon := strings.IndexByte(s, ':'); colon >= 0 {
		host, port = s[:colon], s[colon+1:]
	}
	if host == "" || !validPort(port) {
		return false
	}
	for i := range len(host) {
		if c := host[i]; !unreserved(c) && !strings.ContainsRune("!$&'()*+,;=%", rune(c)) {
			return false
		}
	}
	return true
}

func validPort(port string) bool {
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return len(port) <= 5
}
