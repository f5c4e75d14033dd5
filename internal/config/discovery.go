package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"sluice/internal/model"
)

type dns struct {
	Name     string   `config:"name,required" doc:"what is looked up: a host's name, or that of a service with SRV records"`
	Port     int      `config:"port" doc:"the port of the endpoints; 0: SRV records tell it"`
	Scheme   string   `config:"scheme" enum:"http|https" doc:"what endpoints are spoken to by"`
	Refresh  Duration `config:"refresh" doc:"the longest time between two look-ups; records that live shorter are looked up sooner"`
	Resolver string   `config:"resolver" doc:"the name server: an address, with a port unless it is 53" default:"the system's"`
}

// SetDefaults sets the defaults of SPEC 3.
func (d *dns) SetDefaults() { d.Scheme, d.Refresh = "http", Duration(30*time.Second) }

// dns builds where the endpoints of an upstream are looked up; nil: they are
// written out.
func (r *resolver) dns(u *upstream) *model.DNS {
	in := u.DNS
	if in == nil {
		return nil
	}
	at := func(key string) place { return u.below("dns." + key) }
	built := &model.DNS{Name: strings.ToLower(in.Name), Port: in.Port, Scheme: in.Scheme, Refresh: time.Duration(in.Refresh)}
	_, notAddress := netip.ParseAddr(in.Name)
	switch {
	case !validHost(in.Name):
		r.out.add(at("name"), fmt.Sprintf("name must be a host name or an address, not %s", short(in.Name)), dnsNameHint(in.Name))
	case in.Port < 0 || in.Port > 65535:
		r.out.add(at("port"), fmt.Sprintf("port must be a number from 1 to 65535, or 0 for that of SRV records, not %d", in.Port), "")
	case in.Port == 0 && notAddress == nil:
		r.out.add(at("name"), fmt.Sprintf("name is the address %s, for which no SRV record tells a port", in.Name), "add port: 8080")
	}
	if built.Refresh < time.Second {
		r.out.add(at("refresh"), fmt.Sprintf("refresh must be at least 1s, not %v", in.Refresh), "")
	}
	if in.Resolver != "" {
		server, f := nameServer(in.Resolver)
		if f != nil {
			r.out.add(at("resolver"), "resolver "+f.message, f.hint)
		}
		built.Resolver = server
	}
	return built
}

// dnsNameHint says what to do with what is written beside a name.
func dnsNameHint(name string) string {
	rest, hint := name, ""
	if scheme, after, ok := strings.Cut(name, "://"); ok {
		rest = strings.TrimSuffix(after, "/")
		hint = "write name: " + rest + ", and scheme: " + scheme
	}
	if host, port, err := net.SplitHostPort(rest); err == nil && validHost(host) {
		return fmt.Sprintf("write name: %s, and port: %s", host, port)
	}
	if hint != "" && validHost(rest) {
		return hint
	}
	return nonASCIIHint(name)
}

// nameServer reads the address of a name server, to which 53 is added where it
// has no port.
func nameServer(text string) (string, *fault) {
	if validHost(text) {
		return net.JoinHostPort(strings.ToLower(text), "53"), nil
	}
	if strings.HasPrefix(text, unixPrefix) {
		return "", faulty(fmt.Sprintf("must be host:port, not %s", short(text)), "")
	}
	address, f := parseAddress("", text)
	switch {
	case f != nil:
		return "", faulty(fmt.Sprintf("must be host:port, not %s", short(text)), "write 10.0.0.2 or 10.0.0.2:53")
	case strings.HasPrefix(address, ":"):
		return "", faulty(fmt.Sprintf("has no host: %s", short(text)), "write 127.0.0.1"+text)
	case strings.HasSuffix(address, ":0"):
		return "", faulty("has the port 0, which nothing listens on", "")
	}
	return address, nil
}
