package login

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/model"
)

// use is one oidc with all hosts of the routes that it is on.
type use struct {
	*settings

	at    model.Position
	hosts []string // patterns; nil: all
}

// together warns of oidc that have one name for different things on a host: browsers
// have one cookie of a name for all paths and ports.
func together(gateway *model.Gateway) (problems []model.Problem) {
	uses := usesOf(gateway)
	for i := range uses {
		u := &uses[i]
		at := slices.IndexFunc(uses[:i], func(first use) bool {
			return (u.Cookie == first.Cookie || u.RedirectPath == first.RedirectPath) && !u.readsSessionsOf(first.settings) && overlap(u.hosts, first.hosts)
		})
		if at < 0 {
			continue
		}
		what, comes, hint := "redirect_path "+u.RedirectPath, "nobody can log in at one of them", "give each a redirect_path of its own"
		if u.Cookie == uses[at].Cookie {
			what, comes, hint = "session.cookie "+u.Cookie, "a log-in at one ends that at the other", "give each a session.cookie and a redirect_path of its own"
		}
		problems = append(problems, model.Problem{Position: u.at, Warning: true, Hint: hint, Message: fmt.Sprintf(
			"oidc has the %s of that at %s, which is of another issuer, client, store or secret: on a host that both serve %s", what, uses[at].at, comes)})
	}
	return problems
}

// usesOf are the oidc of all routes, in their order; those that are alike are one.
func usesOf(gateway *model.Gateway) (uses []use) {
	known, places := map[*settings]int{}, map[string]int{}
	for _, route := range gateway.Routes {
		for i := range route.Chain {
			s, ok := route.Chain[i].Settings.(*settings)
			if !ok {
				continue
			}
			at, seen := known[s]
			if !seen {
				identity := model.Text([]any{s.Provider.Issuer, s.ClientID, s.Store, s.secrets, s.Cookie, s.RedirectPath})
				if at, seen = places[identity]; !seen {
					at = len(uses)
					uses = append(uses, use{s, route.Chain[i].Position, slices.Clone(route.Match.Hosts)})
				}
				known[s], places[identity] = at, at
			}
			if seen {
				uses[at].add(route.Match.Hosts)
			}
		}
	}
	return uses
}

// add adds the hosts of another route.
func (u *use) add(hosts []string) {
	if u.hosts == nil || hosts == nil {
		u.hosts = nil
		return
	}
	for _, host := range hosts {
		if !slices.Contains(u.hosts, host) {
			u.hosts = append(u.hosts, host)
		}
	}
}

// readsSessionsOf tells whether a session of one is one of the other, too.
func (s *settings) readsSessionsOf(other *settings) bool {
	return s.Provider.Issuer == other.Provider.Issuer && s.ClientID == other.ClientID && s.Store == other.Store &&
		slices.Contains(s.secrets, other.secrets[0]) && slices.Contains(other.secrets, s.secrets[0])
}

// overlap tells whether two lists of patterns have a host in common.
func overlap(some, others []string) bool {
	if some == nil || others == nil {
		return true
	}
	return slices.ContainsFunc(some, func(a string) bool {
		return slices.ContainsFunc(others, func(b string) bool { return covers(a, b) || covers(b, a) })
	})
}

// covers tells whether all hosts of a pattern are among those of another one.
func covers(pattern, other string) bool {
	below, wild := strings.CutPrefix(pattern, "*")
	return pattern == other || wild && strings.HasSuffix(other, below)
}
