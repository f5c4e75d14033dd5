// Package access holds the middleware that lets requests in or keeps them out: by where
// they come from (ip_filter), by what the client may do once it is known (rbac), and by
// which pages may ask a browser for them (cors). Who the client is, others find out.
package access

import (
	"errors"
	"net/netip"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// IPFilterOptions are the options of ip_filter.
type IPFilterOptions struct {
	Allow []config.Prefix `config:"allow" doc:"addresses that may pass; without it all may that are not denied"`
	Deny  []config.Prefix `config:"deny" doc:"addresses that may not, even if allowed"`
}

// ipFilter is the settings of ip_filter.
type ipFilter struct {
	Allow, Deny []netip.Prefix
}

// IPFilter is the kind ip_filter: it looks at the client's address, and answers
// 403 forbidden to one that is denied, or that is not among the allowed.
func IPFilter() pipeline.Kind {
	return pipeline.NewKind("ip_filter", func() *IPFilterOptions { return &IPFilterOptions{} }, validate, func(_ *pipeline.Site, f ipFilter) pipeline.Middleware { return f.middleware })
}

func validate(o *IPFilterOptions, report model.Report) ipFilter {
	if len(o.Allow)+len(o.Deny) == 0 {
		report("", "ip_filter neither allows nor denies anything", "name addresses under allow or deny")
	}
	return ipFilter{prefixes(o.Allow), prefixes(o.Deny)}
}

func prefixes(list []config.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = p.Prefix
	}
	return out
}

var errFiltered = errors.New("the client's address may not pass")

func (f ipFilter) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		if contains(f.Deny, x.ClientIP) || len(f.Allow) > 0 && !contains(f.Allow, x.ClientIP) {
			return pipeline.NewError(pipeline.Forbidden, errFiltered)
		}
		return next.Serve(x)
	})
}

// contains also holds for no address at all, as on a Unix socket: it is in no
// prefix.
func contains(list []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range list {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
