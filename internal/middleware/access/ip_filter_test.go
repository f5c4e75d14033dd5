package access_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/middleware/access"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// resolve returns the middleware with the options, or the problems.
func resolve(options string) (pipeline.Middleware, []string) {
	kind := access.IPFilter()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{match: {path: /}, respond: {status: 200}, middleware: [{ip_filter: ` + options + `}]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	if result.Gateway == nil {
		return nil, problems
	}
	return kind.Build(&pipeline.Site{}, result.Gateway.Routes[0].Chain[0].Settings), problems
}

func TestIPFilter(t *testing.T) {
	for _, test := range []struct {
		options string
		pass    string // addresses, separated by spaces; "none" for an exchange without one
		refuse  string
	}{
		{"{allow: [10.0.0.0/8]}", "10.0.0.0 10.255.255.255 ::ffff:10.1.2.3", "9.255.255.255 11.0.0.0 ::1 none"},
		{"{allow: [10.1.2.3]}", "10.1.2.3", "10.1.2.2 10.1.2.4 none"},
		{"{deny: [10.0.0.0/8]}", "11.0.0.0 ::1 2001:db8::1 none", "10.1.2.3 ::ffff:10.1.2.3"},
		{"{deny: [10.1.2.3, 192.0.2.0/24]}", "10.1.2.4 192.0.3.0", "10.1.2.3 192.0.2.255"},
		{"{allow: [10.0.0.0/8], deny: [10.1.0.0/16]}", "10.0.255.255 10.2.0.0", "10.1.2.3 11.0.0.1 none"},
		{"{allow: [10.1.0.0/16], deny: [10.0.0.0/8]}", "", "10.1.2.3 10.2.0.0 11.0.0.1"}, // deny wins
		{"{allow: ['2001:db8::/32']}", "2001:db8::1 2001:db8:ffff::", "2001:db9:: 10.0.0.1 ::1"},
		{"{deny: ['2001:db8::1']}", "2001:db8::2 10.0.0.1", "2001:db8::1 2001:0DB8:0::0001"},
		{"{allow: ['fe80::/10']}", "fe80::1%eth0", "fec0::1"},
		{"{deny: ['::ffff:10.0.0.0/104']}", "11.0.0.1", "10.1.2.3 ::ffff:10.1.2.3"},
		{"{deny: ['::ffff:10.1.2.3']}", "10.1.2.4", "10.1.2.3"},
		{"{allow: [0.0.0.0/0]}", "10.1.2.3 ::ffff:10.1.2.3", "::1 none"},
		{"{allow: ['::/0']}", "::1", "10.1.2.3 none"},
		{"{deny: [0.0.0.0/0, '::/0']}", "none", "10.1.2.3 ::1"},
	} {
		middleware, problems := resolve(test.options)
		if problems != nil {
			t.Fatal(test.options, problems)
		}
		for list, want := range map[string]bool{test.pass: true, test.refuse: false} {
			for address := range strings.FieldsSeq(list) {
				var peer netip.AddrPort
				if address != "none" {
					peer = netip.AddrPortFrom(netip.MustParseAddr(address), 1)
				}
				x := pipeline.NewExchange(t.Context(), &message.Request{Method: "GET"}, &model.Listener{}, peer, time.Time{})
				reached := false
				err := pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { reached = true; return nil }), middleware).Serve(x)
				if reached != want || (err == nil) != want {
					t.Errorf("%s lets %s pass: %v, %v", test.options, address, reached, err)
				}
				if !want && (pipeline.AsError(err).Word != pipeline.Forbidden || strings.Contains(pipeline.AsError(err).Detail, address)) {
					t.Errorf("%s refuses %s with %+v", test.options, address, err)
				}
			}
		}
	}
}

// TestClientBehindAProxy looks at the client that a trusted proxy tells of, not
// at the proxy.
func TestClientBehindAProxy(t *testing.T) {
	middleware, _ := resolve("{deny: [192.0.2.1]}")
	for forwarded, want := range map[string]bool{"192.0.2.1": false, "192.0.2.2": true, "192.0.2.1, 192.0.2.2": true, "": true} {
		request := &message.Request{Protocol: message.HTTP11, Method: "GET", Host: "x", Path: "/"}
		if forwarded != "" {
			request.Fields.Add("X-Forwarded-For", forwarded)
		}
		listener := &model.Listener{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		x := pipeline.NewExchange(t.Context(), request, listener, netip.MustParseAddrPort("10.0.0.1:1"), time.Time{})
		if err := pipeline.Admit(x, nil); err != nil {
			t.Fatal(err)
		}
		if err := pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil }), middleware).Serve(x); (err == nil) != want {
			t.Errorf("X-Forwarded-For %q: %v", forwarded, err)
		}
	}
}

func TestProblems(t *testing.T) {
	address := " must be an address such as 10.1.2.3 or a range such as 10.0.0.0/8, not "
	for options, want := range map[string]string{
		"{}":                          "it.yaml:3:78: ip_filter neither allows nor denies anything (name addresses under allow or deny)",
		"{allow: [], deny: []}":       "it.yaml:3:78: ip_filter neither allows nor denies anything (name addresses under allow or deny)",
		"{allow: [localhost]}":        "it.yaml:3:87: allow[0]" + address + "the text \"localhost\"",
		"{deny: ['::1', 10.0.0.1/8]}": "it.yaml:3:93: deny[1] has bits set beyond its length of 8 (write 10.0.0.0/8)",
		"{deny: ['fe80::1%eth0']}":    "it.yaml:3:86: deny[0] must not have a zone (leave the % and what follows it out)",
		"{denied: [10.0.0.1]}":        "it.yaml:3:79: unknown key \"denied\" (known here: allow, deny)",
	} {
		_, problems := resolve(options)
		if got := strings.Join(problems, "|"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}
