package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// keySources are what a key may be taken from.
var keySources = []string{string(model.KeyHeader), string(model.KeyCookie), string(model.KeyQuery), string(model.KeyClaim), string(model.KeyClientIP)}

// key is what of a request identifies a user or a client: header:NAME, cookie:NAME,
// query:NAME, jwt:CLAIM or client_ip.
type key struct{ model.Key }

const keyWant = "header:NAME, cookie:NAME, query:NAME, jwt:CLAIM or client_ip"

func (k *key) decode(d *decoder, n *yaml.Node) {
	d.scalar(n, keyWant, func(s scalar) *fault {
		source, name, named := strings.Cut(s.s, ":")
		if !slices.Contains(keySources, source) {
			return unwanted(keyHint(d.out.nearest(source, keySources), s.s, name, named))
		}
		k.Source, k.Name = model.KeySource(source), name
		return checkKey(k.Key, named)
	})
}

// keyHint says how a text that is no key becomes one, if it does. near is the
// source that it may mean.
func keyHint(near, text, name string, named bool) string {
	switch {
	case near == string(model.KeyClientIP):
		return "write client_ip"
	case near != "" && named:
		return "write " + near + ":" + name
	case near != "":
		return "write " + near + ":NAME"
	case isToken(text) && natureOf(text) == isText:
		return "write header:" + text + " for a header field"
	}
	return ""
}

func checkKey(k model.Key, named bool) *fault {
	switch k.Source {
	case model.KeyClientIP:
		if named {
			return faulty("must be client_ip alone, which has no name", "write client_ip")
		}
	case model.KeyHeader:
		switch {
		case !isToken(k.Name):
			return faulty(fmt.Sprintf("needs the name of a header field after header:, not %s", short(k.Name)), "")
		case strings.EqualFold(k.Name, "host"):
			return faulty("must not be Host, which tells sites apart and not users", "write a route for each host")
		}
	case model.KeyCookie:
		if !isToken(k.Name) {
			return faulty(fmt.Sprintf("needs the name of a cookie after cookie:, not %s", short(k.Name)), "")
		}
	case model.KeyGlobal, model.KeyRoute, model.KeyUpstream, model.KeyConsumer: // of limits, which have no name
	case model.KeyQuery, model.KeyClaim:
		if k.Name == "" || hasControl(k.Name) {
			return faulty(fmt.Sprintf("needs a name after %s:, not %s", k.Source, short(k.Name)), "")
		}
	}
	return nil
}

// built is the key as the model has it; nil stays nil.
func (k *key) built() *model.Key {
	if k == nil {
		return nil
	}
	return &k.Key
}
