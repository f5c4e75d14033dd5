package snapshot

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

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
			return nil, client, &QuestionError{"ip is no address: " + strconv.Quote(ip)}
		}
		client = client.Unmap().WithZone("")
	}
	if method == "" {
		method = "GET"
	}
	if !httpguts.ValidHeaderFieldName(method) { // both are tokens (RFC 9110 9.1)
		return nil, client, &QuestionError{"the method is none such as GET: " + strconv.Quote(method)}
	}
	request := &message.Request{Protocol: message.HTTP11, Method: strings.ToUpper(method), Scheme: "http", Target: target, Host: "localhost"}
	if err := setTarget(request, target); err != nil {
		return nil, client, err
	}
	for _, header := range headers {
		name, value, ok := strings.Cut(header, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, client, &QuestionError{"a header is not of the form Name: value: " + strconv.Quote(header)}
		}
		if message.Lookup(name) == message.Host {
			request.Host = value
		} else {
			request.Fields.Add(name, value)
		}
	}
	return request, client, nil
}

// setTarget fills in what the URL, or the path, of a question says.
func setTarget(request *message.Request, target string) error {
	if target == "" {
		return &QuestionError{"url is missing; give an absolute URL or a path"}
	}
	for i := range len(target) {
		if target[i] <= ' ' || target[i] == 0x7f {
			return &QuestionError{"the URL has a space or a control character, which a request cannot have: " + strconv.Quote(target)}
		}
	}
	target, _, _ = strings.Cut(target, "#") // which no client sends
	path, query, found := strings.Cut(target, "?")
	if found {
		request.Query = "?" + query
	}
	if scheme, rest, absolute := strings.Cut(path, "://"); absolute {
		request.Scheme = strings.ToLower(scheme)
		request.Host, path, _ = strings.Cut(rest, "/")
		path = "/" + path
		switch {
		case request.Scheme != "http" && request.Scheme != "https":
			return &QuestionError{"the URL is neither http nor https: " + strconv.Quote(target)}
		case !canonical.ValidAuthority(request.Host):
			return &QuestionError{"the URL has no valid host: " + strconv.Quote(target)}
		}
	}
	if !strings.HasPrefix(path, "/") && !(path == "*" && request.Method == "OPTIONS") {
		return &QuestionError{"neither a URL, such as http://api.example.com/users, nor a path, such as /users: " + strconv.Quote(target)}
	}
	request.Path = path
	return nil
}

// QuestionError is a question that makes no sense, in a sentence.
type QuestionError struct{ text string }

// Error is the sentence.
func (e *QuestionError) Error() string { return e.text }
