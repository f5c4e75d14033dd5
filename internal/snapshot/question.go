package snapshot

import (
	"net/netip"
	"strconv"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// Question is the request that an explanation is asked about. headers are
// "Name: value". Without a method it is a GET, without an address it comes from
// loopback. Its errors are for the one who asked.
func Question(method, target string, headers []string, ip string) (*message.Request, netip.Addr, error) {
	client := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	var err error
	if ip != "" {
		if client, err = netip.ParseAddr(ip); err != nil {
			return nil, client, &QuestionError{"ip is no address: " + ip}
		}
		client = client.Unmap().WithZone("")
	}
	if method == "" {
		method = "GET"
	}
	request := &message.Request{Protocol: message.HTTP11, Method: strings.ToUpper(method), Scheme: "http", Target: target, Host: "localhost", Path: target}
	if scheme, rest, ok := strings.Cut(target, "://"); ok {
		request.Scheme = scheme
		request.Host, request.Path, _ = strings.Cut(rest, "/")
		request.Path = "/" + request.Path
		if host, query, found := strings.Cut(request.Host, "?"); found { // http://host?query
			request.Host, request.Path = host, "/?"+query
		}
		if !canonical.ValidAuthority(request.Host) {
			return nil, client, &QuestionError{"the URL has no valid host: " + target}
		}
	}
	if request.Path == "" {
		return nil, client, &QuestionError{"url is missing; give an absolute URL or a path"}
	}
	request.Path, _, _ = strings.Cut(request.Path, "#")
	if path, query, found := strings.Cut(request.Path, "?"); found {
		request.Path, request.Query = path, "?"+query
	}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, client, &QuestionError{"a header is not of the form Name: value: " + strconv.Quote(header)}
		}
		if value = strings.TrimSpace(value); message.Lookup(name) == message.Host {
			request.Host = value
		} else {
			request.Fields.Add(name, value)
		}
	}
	return request, client, nil
}

// QuestionError is a question that makes no sense, in a sentence.
type QuestionError struct{ text string }

// Error is the sentence.
func (e *QuestionError) Error() string { return e.text }
