package config

import (
	"fmt"
	"strings"

	"sluice/internal/model"
)

func (r *resolver) admin(a *admin) {
	if a.broken {
		return
	}
	where := a.below("address")
	address, f := parseAddress(a.src.Dir, a.Address)
	switch {
	case f != nil:
		r.out.add(where, "address "+f.message, f.hint)
	case a.Token == "" && !isLoopback(address):
		r.out.add(where, fmt.Sprintf("the admin API at %s can be reached from other machines and needs a token", a.Address), "write token: ${SLUICE_ADMIN_TOKEN}, or listen on 127.0.0.1")
	}
	if f == nil {
		r.lookAtSocket(where, address)
	}
	for _, listener := range r.gateway.Listeners {
		if f == nil && clash(address, listener.Address) {
			r.out.add(where, fmt.Sprintf("the admin API and the listener %s have the same address, %s", listener.Name, a.Address), "give one of them another port")
		}
	}
	var hosts []string
	for i, host := range a.Hosts {
		name, f := parseHost(host, false)
		if f != nil {
			r.out.add(a.below(fmt.Sprintf("hosts[%d]", i)), fmt.Sprintf("hosts[%d] %s", i, f.message), f.hint)
		}
		hosts = append(hosts, name)
	}
	if strings.ContainsFunc(string(a.Token), func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		r.out.add(a.below("token"), "token has characters that no bearer token may have", "use visible ASCII characters without spaces")
	}
	if a.Name != "" && !isToken(a.Name) {
		r.out.add(a.below("name"), fmt.Sprintf("name must be a token as RFC 9110 5.6.2 has it, not %s", short(a.Name)), "use letters, digits, - and _")
	}
	r.gateway.Admin = model.Admin{Address: address, Token: string(a.Token), Public: a.Public, Hosts: hosts, Name: a.Name, Position: where.position()}
}
