package auth

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/token"
)

// claimHeader is a field that tells a claim.
type claimHeader struct {
	Name  string
	Claim string
}

var (
	errClaimName  = errors.New("a claim of the token is no name: too long, or with control characters")
	errClaimField = errors.New("a claim of the token has what no field may have")
)

// userOf is what a token comes to. One whose claims cannot be told as they are is no good.
func (j *jwt) userOf(verified *token.Verified) (*claimedUser, error) {
	p := &pipeline.Principal{Claims: verified.Claims}
	text := func(name string) string {
		value, _ := p.Claim(name)
		return pipeline.ClaimText(value)
	}
	if p.Name = text(j.Consumer); j.Tier != "" {
		p.Tier = text(j.Tier)
	}
	if j.Groups != "" {
		groups, _ := p.Claim(j.Groups)
		p.Groups = textsOf(groups)
	}
	if unusable(p.Name) || unusable(p.Tier) || slices.ContainsFunc(p.Groups, unusable) {
		return nil, errClaimName
	}
	user := &claimedUser{principal: p}
	for _, h := range j.Headers {
		claim, there := p.Claim(h.Claim)
		if !there || claim == nil {
			continue
		}
		value := pipeline.ClaimText(claim)
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, errClaimField
		}
		user.fields.Add(h.Name, strings.Trim(value, " \t"))
	}
	return user, nil
}

// textsOf are the members of a list, or the one of a text.
func textsOf(value any) []string {
	list, ok := value.([]any)
	if !ok && value != nil {
		list = []any{value}
	}
	var texts []string
	for _, one := range list {
		if text := pipeline.ClaimText(one); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// dropHeaders drops what clients say in the place of claims, also under names that some
// endpoints take for the same.
func (j *jwt) dropHeaders(fields *message.Fields) {
	if len(j.Headers) == 0 {
		return
	}
	fields.DeleteFunc(func(f message.Field) bool {
		return slices.ContainsFunc(j.Headers, func(h claimHeader) bool { return sameField(f.Name, h.Name) })
	})
}

// sameField tells whether two names are one to endpoints that make variables of them:
// case does not count, nor whether it is - or _.
func sameField(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	fold := func(c byte) byte {
		switch {
		case c == '_':
			return '-'
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return c
	}
	for i := range len(a) {
		if fold(a[i]) != fold(b[i]) {
			return false
		}
	}
	return true
}

// checkClaimHeader reports a field that may not tell a claim: the gateway sets it itself,
// or it belongs to the connection.
func checkClaimHeader(name, path string, report model.Report) {
	id := message.Lookup(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		report(path, "the field name "+quoted(name)+" is not valid", "field names are letters, digits and -")
	case id.OfEngine(), id == message.Host, id == message.ProxyAuthenticate, id == message.ProxyAuthorization:
		report(path, "the field "+name+" belongs to the connection and cannot tell a claim", "use another name")
	case id == message.Forwarded, id == message.Via, id == message.XRealIP, id == message.XRequestID, strings.HasPrefix(strings.ToLower(name), "x-forwarded-"):
		report(path, "the field "+name+" is set by the gateway and cannot tell a claim", "use another name")
	}
}
