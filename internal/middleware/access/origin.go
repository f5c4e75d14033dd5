package access

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"sluice/internal/config"
	"sluice/internal/model"
)

// suffix is https://*.example.com: the origins of all hosts below one, however many
// labels are in front.
type suffix struct {
	Scheme string // with ://
	Host   string // with the dot before it, and the port if there is one
}

// matches tells whether an origin is one of those that may ask. It is compared as
// browsers write it (RFC 6454 6.1): in lower case, without a default port.
func (c *cors) matches(origin string) bool {
	if slices.Contains(c.Exact, origin) {
		return true
	}
	for i := range c.Below {
		if c.Below[i].matches(origin) {
			return true
		}
	}
	for _, regex := range c.Regexes {
		if regex.MatchString(origin) {
			return true
		}
	}
	return false
}

func (s *suffix) matches(origin string) bool {
	rest, ok := strings.CutPrefix(origin, s.Scheme)
	if !ok {
		return false
	}
	labels, ok := strings.CutSuffix(rest, s.Host)
	if !ok || labels == "" {
		return false
	}
	for i := range len(labels) { // nothing that could end a host
		switch c := labels[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		case c == '.' && i > 0 && i < len(labels)-1 && labels[i-1] != '.':
		default:
			return false
		}
	}
	return true
}

// strangers are origins that nobody means: a regex that matches one matches anybody's.
var strangers = [...]string{"https://any.invalid", "http://any.invalid", "https://x.y.z.test:8443", "https://attacker.example"}

// origin takes one of the origins in.
func (c *cors) origin(path string, o *config.TextOrRegex, report model.Report) {
	open := func(what string) {
		if c.Credentials {
			report(path, what+", and with credentials that gives them whatever users may see", "name the origins, or leave credentials out")
		}
	}
	switch {
	case o.Regex != nil:
		if origin := stranger(o.Regex.Regexp); origin != "" {
			open(path + " matches the origin of anybody, as " + origin)
		}
		c.Regexes = append(c.Regexes, o.Regex.Regexp)
	case o.Text == anything:
		open(path + " is *: pages of anybody may ask")
		c.Any = true
	case o.Text == "null":
		open(path + " is null, which every page can make itself by a sandboxed frame")
		c.Exact = append(c.Exact, o.Text)
	case o.Text != "":
		c.named(path, o.Text, open, report)
	default:
		report(path, path+" is neither a text nor a regex", "write https://app.example.com, or {regex: …}")
	}
}

// asBrowsersDo is the host of a URL, with its port, as browsers write it in an origin (URL
// standard 4.3 and 4.4), and whether there can be one.
func asBrowsersDo(u *url.URL) (string, bool) {
	host, port := u.Hostname(), ""
	if u.Port() != "" {
		number, err := strconv.ParseUint(u.Port(), 10, 16)
		if err != nil {
			return "", false
		}
		port = ":" + strconv.FormatUint(number, 10)
	}
	address, err := netip.ParseAddr(host)
	switch {
	case err == nil && address.Is6():
		return "[" + address.String() + "]" + port, true
	case strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }):
		host, err = idna.Lookup.ToASCII(host)
		return host + port, err == nil
	}
	return host + port, true
}

// named takes an origin that is written out, or all below a host.
func (c *cors) named(path, text string, open func(what string), report model.Report) {
	scheme, rest, ok := strings.Cut(text, "://")
	host, below := strings.CutPrefix(rest, "*.")
	u, err := url.Parse(strings.ToLower(scheme) + "://" + strings.ToLower(host))
	if !ok || err != nil || u.Host == "" || u.Hostname() == "" || strings.Contains(host, anything) {
		report(path, fmt.Sprintf("%s must be an origin, not %q", path, text), "write a scheme and a host, such as https://app.example.com or https://*.example.com")
		return
	}
	bare := u.Scheme + "://" + u.Host
	_, notAddress := netip.ParseAddr(u.Hostname())
	written, valid := asBrowsersDo(u)
	switch {
	case !strings.EqualFold(host, u.Host):
		report(path, fmt.Sprintf("%s must be a scheme, a host and a port at most, not %q", path, text), "write "+strings.Replace(bare, "://", "://"+rest[:len(rest)-len(host)], 1))
	case !valid, below && notAddress == nil:
		report(path, fmt.Sprintf("%s must be an origin, and no host has the name or the port of %q", path, text), "")
	case written != u.Host:
		report(path, fmt.Sprintf("%s is not written as browsers write it: %q", path, text), "write "+strings.Replace(text, host, written, 1))
	case u.Scheme == "https" && u.Port() == "443", u.Scheme == "http" && u.Port() == "80":
		report(path, fmt.Sprintf("%s has the port that browsers leave out", path), "remove :"+u.Port())
	case below:
		if anybodys(u.Hostname()) {
			open(path + " is all of " + u.Hostname() + ", where anybody may have a name")
		}
		c.Below = append(c.Below, suffix{u.Scheme + "://", "." + u.Host})
	default:
		c.Exact = append(c.Exact, bare)
	}
}
