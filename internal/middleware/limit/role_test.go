package limit_test

import (
	"testing"

	"sluice/internal/config"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// TestRole: limits that go by who the client is say so, that they stand behind what
// tells.
func TestRole(t *testing.T) {
	for options, want := range map[string]model.Role{
		"rate_limit: {rate: 1/s}":                                                           model.Plain,
		"rate_limit: {rate: 1/s, key: header:A}":                                            model.Plain,
		"rate_limit: {rate: 1/s, key: consumer}":                                            model.Telling,
		"rate_limit: {rate: 1/s, key: [client_ip, 'jwt:sub']}":                              model.Telling,
		"rate_limit: {rate: 1/s, tiers: {a: {rate: 2/s}}}":                                  model.Telling,
		"rate_limit: {rate: 1/s, tiers: {a: {rate: 2/s}}, tier_by: 'jwt:plan'}":             model.Telling,
		"rate_limit: {rate: 1/s, tiers: {a: {rate: 2/s}}, tier_by: 'header:A'}":             model.Plain,
		"concurrency_limit: {max: 1}":                                                       model.Plain,
		"concurrency_limit: {max: 1, key: consumer}":                                        model.Telling,
		"rate_limit: {rate: 1/s, key: consumer, tiers: {a: {rate: 2/s}}, tier_by: query:a}": model.Telling,
	} {
		var kinds []config.Kind
		for _, kind := range []pipeline.Kind{limit.Rate(), limit.Concurrency()} {
			kinds = append(kinds, config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role})
		}
		resolved := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte("listeners: {web: {address: ':0'}}\nroutes: [{match: {path: /}, respond: {status: 200}, middleware: [{" + options + "}]}]\n")}}, kinds, config.Environment{})
		if resolved.Gateway == nil {
			t.Fatal(options, resolved.Problems)
		}
		if got := resolved.Gateway.Routes[0].Chain[0].Role; got != want {
			t.Errorf("%s: role %d, want %d", options, got, want)
		}
	}
}
