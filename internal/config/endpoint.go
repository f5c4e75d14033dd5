package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/model"
)

// weight is a share: a whole number, or a percentage, which is kept in
// hundredths of a percent.
type weight struct {
	share   int
	percent bool
}

func (*weight) want() string { return "a whole number, or a percentage such as 20%" }

func (w *weight) set(s scalar) *fault {
	if number, ok := strings.CutSuffix(s.s, "%"); ok {
		share, err := strconv.ParseFloat(number, 64)
		if err != nil || !floatForm.MatchString(number) {
			return unwanted("")
		}
		hundredths := math.Round(share * 100)
		if share < 0 || share > 100 || math.Abs(hundredths-share*100) > 1e-6 {
			return faulty("must be from 0% to 100%, with two decimals at most", "")
		}
		*w = weight{int(hundredths), true}
		return nil
	}
	if s.nature() != isInt {
		return unwanted(numberHint(s))
	}
	number, err := s.integer()
	switch {
	case err == nil && number < 0:
		return faulty("must not be negative", "")
	case err != nil || number > math.MaxInt32:
		return faulty("is too large", "")
	}
	*w = weight{share: int(number)}
	return nil
}

// String is the weight as one writes it.
func (w weight) String() string {
	if w.percent {
		return strconv.FormatFloat(float64(w.share)/100, 'f', -1, 64) + "%"
	}
	return strconv.Itoa(w.share)
}

// isURL tells whether a destination is a URL and not a name.
func isURL(s string) bool { return strings.Contains(s, "://") || strings.HasPrefix(s, unixPrefix) }

// ParseEndpoint reads the URL of an endpoint as documents may have it; a relative
// path of a socket is taken from the root. The error says what is wrong with it.
func ParseEndpoint(text string) (model.Endpoint, error) {
	endpoint, f := parseEndpoint("/", text)
	if f != nil {
		return endpoint, errors.New("url " + f.message)
	}
	return endpoint, nil
}

// parseEndpoint reads the URL of an endpoint. Faults follow the name of the
// value.
func parseEndpoint(dir, text string) (model.Endpoint, *fault) {
	endpoint := model.Endpoint{URL: text, Scheme: "http", Weight: 1}
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		address, f := parseUnix(dir, path)
		endpoint.Address, endpoint.Host = address, "localhost"
		return endpoint, f
	}
	if !strings.Contains(text, "://") {
		return endpoint, faulty(fmt.Sprintf("must be a URL such as http://10.0.0.1:8080 or unix:PATH, not %s", short(text)), schemeHint(text))
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return endpoint, faulty(fmt.Sprintf("is no valid URL: %v", err), "")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return endpoint, faulty(fmt.Sprintf("has the scheme %s, neither http nor https", short(u.Scheme)), didYouMeanScheme(u.Scheme))
	case u.User != nil:
		return endpoint, faulty("must not have user information", "set the Authorization field with the headers middleware")
	case u.RawQuery != "" || u.ForceQuery:
		return endpoint, faulty("must not have a query", "leave the ? and what follows it out")
	case u.Fragment != "":
		return endpoint, faulty("must not have a fragment", "leave the # and what follows it out")
	case u.Hostname() == "":
		return endpoint, faulty("has no host", "write http://HOST:PORT")
	case !validHost(u.Hostname()):
		return endpoint, faulty(fmt.Sprintf("has the host %s, which is neither an address nor a name", short(u.Hostname())), nonASCIIHint(u.Hostname()))
	}
	return completeEndpoint(endpoint, u)
}

func completeEndpoint(endpoint model.Endpoint, u *url.URL) (model.Endpoint, *fault) {
	endpoint.Scheme = u.Scheme
	usual := "80"
	if u.Scheme == "https" {
		usual = "443"
	}
	port := u.Port()
	switch {
	case port == "" && strings.HasSuffix(u.Host, ":"):
		return endpoint, faulty("has a colon without a port", "add the port, or leave the colon out")
	case port == "":
		port = usual
	case !validPort(port, 1):
		return endpoint, faulty(fmt.Sprintf("has the port %s, which is no number from 1 to 65535", short(port)), "")
	}
	host := strings.ToLower(u.Hostname())
	endpoint.Address = net.JoinHostPort(host, port)
	endpoint.Host = strings.ToLower(u.Host)
	if port == usual {
		endpoint.Host = strings.TrimSuffix(endpoint.Host, ":"+usual)
	}
	path, err := canonical.Path("/"+strings.TrimPrefix(u.EscapedPath(), "/"), canonical.Options{EncodedSlash: canonical.Keep})
	if err != nil {
		return endpoint, faulty("has a base path that cannot be used: "+err.Error(), "")
	}
	endpoint.BasePath = strings.TrimRight(path, "/")
	return endpoint, nil
}

// schemeHint says how a text without a scheme becomes a URL, if it does.
func schemeHint(text string) string {
	url := "http://" + strings.TrimLeft(text, "/")
	if strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return "write unix:" + text + " for a socket"
	}
	if _, f := parseEndpoint("/", url); f != nil {
		return ""
	}
	return "write " + url
}

func didYouMeanScheme(scheme string) string {
	if strings.HasPrefix(scheme, "h") {
		return "write http://"
	}
	return ""
}
