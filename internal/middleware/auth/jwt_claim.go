package auth

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// ClaimHeader is a field that tells a claim.
type ClaimHeader struct {
	Name  string
	Claim string
}

// Identity says which claims tell who a client is, and which of them the destination
// gets. It is a part of settings, and is not changed.
type Identity struct {
	Consumer string // names of claims
	Tier     string // empty: none
	Groups   string // alike
	Headers  []ClaimHeader
}

// NewIdentity returns the identity that the options claims_to_headers, consumer_claim,
// tier_claim and groups_claim mean, and reports what is wrong with them.
func NewIdentity(consumer, tier, groups string, headers config.Map[string], report model.Report) Identity {
	i := Identity{Consumer: consumer, Tier: tier, Groups: groups}
	if consumer == "" {
		report("consumer_claim", "consumer_claim is empty", "write the name of a claim, or leave the key out")
	}
	for _, h := range headers {
		path := "claims_to_headers." + h.Key
		checkClaimHeader(h.Key, path, report)
		if h.Value == "" {
			report(path, "the field "+h.Key+" tells no claim", "write the name of one")
		}
		if slices.ContainsFunc(i.Headers, func(other ClaimHeader) bool { return message.Alike(other.Name, h.Key) }) {
			report(path, "the field "+h.Key+" is here twice: neither case nor _ for - tells names apart", "keep one of them")
		}
		i.Headers = append(i.Headers, ClaimHeader{h.Key, h.Value})
	}
	return i
}

// ClaimedUser is what the claims of a token come to. It is not changed.
type ClaimedUser struct {
	principal *pipeline.Principal
	fields    message.Fields
}

// size is about how many bytes of memory it takes up beside the claims.
func (u *ClaimedUser) size() int {
	const own, text, field = 200, 16, 40
	size := own + text*cap(u.principal.Groups) + field*cap(u.fields)
	for _, f := range u.fields {
		size += len(f.Value)
	}
	return size
}

var (
	errClaimName  = errors.New("a claim of the token is no name: too long, or with control characters")
	errClaimField = errors.New("a claim of the token has what no field may have")
)

// UserOf is what claims come to. Those that cannot be told as they are are no good.
func (i *Identity) UserOf(claims map[string]any) (*ClaimedUser, error) {
	p := &pipeline.Principal{Claims: claims}
	text := func(name string) string {
		value, _ := p.Claim(name)
		return pipeline.ClaimText(value)
	}
	if p.Name = text(i.Consumer); i.Tier != "" {
		p.Tier = text(i.Tier)
	}
	if i.Groups != "" {
		groups, _ := p.Claim(i.Groups)
		p.Groups = textsOf(groups)
	}
	if names := append([]string{p.Name, p.Tier}, p.Groups...); slices.ContainsFunc(names, func(name string) bool { return !pipeline.ValidName(name) }) {
		return nil, errClaimName
	}
	user := &ClaimedUser{principal: p}
	for _, h := range i.Headers {
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

// textsOf are the members of a list, or the one of a text. What is made of others, a list
// within a list or an object, is no text.
func textsOf(value any) []string {
	list, ok := value.([]any)
	if !ok && value != nil {
		list = []any{value}
	}
	var texts []string
	for _, one := range list {
		switch one.(type) {
		case []any, map[string]any:
			continue
		}
		if text := pipeline.ClaimText(one); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// Pass says in a request who the client is; nil: nobody. What clients say in the place
// of claims is dropped, also under names that some endpoints take for the same.
func (i *Identity) Pass(x *pipeline.Exchange, user *ClaimedUser) {
	for _, h := range i.Headers {
		x.DropRequestField(h.Name)
	}
	if user != nil {
		x.Authenticate(user.principal)
		x.AddRequestFields(user.fields)
	}
}

// checkClaimHeader reports a field that may not tell a claim: the gateway sets it itself,
// or it belongs to the connection.
func checkClaimHeader(name, path string, report model.Report) {
	alike := strings.ReplaceAll(name, "_", "-") // to some endpoints
	id := message.Lookup(alike)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		report(path, "the field name "+quoted(name)+" is not valid", "field names are letters, digits and -")
	case id.OfEngine(), id == message.Host, id == message.ProxyAuthenticate, id == message.ProxyAuthorization:
		report(path, "the field "+name+" belongs to the connection and cannot tell a claim", "use another name")
	case pipeline.GatewayTells(alike):
		report(path, "the field "+name+" is set by the gateway and cannot tell a claim", "use another name")
	}
}
