package config

import (
	"fmt"
	"time"

	"sluice/internal/model"
)

type loadBalancer struct {
	Policy string   `config:"policy" enum:"round_robin|least_connections|p2c_ewma|random|consistent_hash|sticky_cookie" doc:"the algorithm: smooth weighted turns; the fewest exchanges in flight for its weight; the faster of two by their latest answers; chance; one endpoint for each value of hash_on; one endpoint for each client by a cookie"`
	HashOn *key     `config:"hash_on" doc:"what consistent_hash tells users by"`
	Name   *string  `config:"name" doc:"the name of the cookie of sticky_cookie" default:"sluice"`
	TTL    Duration `config:"ttl" doc:"how long a client keeps the cookie of sticky_cookie; 0: for its session"`
}

// defaultCookie is the name of the cookie of sticky_cookie where none is written.
const defaultCookie = "sluice"

// balancer builds how the endpoints of an upstream are chosen.
func (r *resolver) balancer(u *upstream) model.Balancer {
	in := &u.LoadBalancer
	built := model.Balancer{Policy: in.Policy, HashOn: in.HashOn.built()}
	foreign := func(key, policy string) {
		r.out.add(u.below("load_balancer."+key), fmt.Sprintf("%s is for the policy %s, and the policy is %s", key, policy, in.Policy), "write policy: "+policy+", or remove "+key)
	}
	switch {
	case in.Policy == model.ConsistentHash && in.HashOn == nil:
		r.out.add(u.below("load_balancer"), "consistent_hash needs hash_on, which tells users apart", "write hash_on: client_ip, or hash_on: header:NAME")
	case in.Policy != model.ConsistentHash && in.HashOn != nil:
		foreign("hash_on", model.ConsistentHash)
	}
	if in.Policy != model.StickyCookie {
		if in.Name != nil {
			foreign("name", model.StickyCookie)
		}
		if in.TTL != 0 {
			foreign("ttl", model.StickyCookie)
		}
		return built
	}
	built.Cookie, built.TTL = defaultCookie, time.Duration(in.TTL)
	if in.Name != nil {
		built.Cookie = *in.Name
	}
	if f := cookieName(built.Cookie); f != nil {
		r.out.add(u.below("load_balancer.name"), f.message, f.hint)
	}
	if built.TTL%time.Second != 0 { // Max-Age counts seconds (RFC 6265 5.2.2)
		r.out.add(u.below("load_balancer.ttl"), fmt.Sprintf("ttl must be whole seconds, not %v", in.TTL), "")
	}
	return built
}
