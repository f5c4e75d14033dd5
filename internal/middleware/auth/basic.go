package auth

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/crypto/bcrypt"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// BasicOptions are the options of basic_auth.
type BasicOptions struct {
	Users     []UserOptions `config:"users" doc:"who may pass"`
	UsersFile *config.File  `config:"users_file" doc:"a file of more of them, as of htpasswd -B: lines of name:hash, and # before comments; taken up when it changes"`
	Realm     string        `config:"realm" doc:"what clients are told that the password is for"`
	Forward   bool          `config:"forward" doc:"whether the destination gets the password as well"`
}

// UserOptions are a user.
type UserOptions struct {
	Name   string   `config:"name,required" doc:"what the user logs in as; the consumer's name, too"`
	Hash   string   `config:"hash,required" doc:"the bcrypt hash of the password; htpasswd -nB NAME prints it"`
	Tier   string   `config:"tier" doc:"the user's tier, for limits"`
	Groups []string `config:"groups" doc:"the groups that the user is in"`
}

// basicAuth is the settings of basic_auth.
type basicAuth struct {
	Users     string // digest of table
	Challenge string
	Forward   bool

	table map[string]user
	// nobody has a password that nothing matches, and dearest is what it costs: as much as
	// the hash of anybody, and as much as it costs to refuse anybody.
	nobody  user
	dearest int
}

type user struct {
	hash      string
	principal *pipeline.Principal
}

// Basic is the kind basic_auth (RFC 7617): a request without the name and the password
// of a user is 401 unauthenticated.
func Basic() pipeline.Kind {
	return pipeline.NewKind("basic_auth", func() *BasicOptions { return &BasicOptions{Realm: "restricted", Forward: true} }, validateBasic,
		func(site *pipeline.Site, b *basicAuth) pipeline.Middleware {
			return (&basicGate{b, acquirePasswords(site.Leases)}).middleware
		}).As(model.Authenticating)
}

func validateBasic(o *BasicOptions, report model.Report) *basicAuth {
	b := &basicAuth{Challenge: "Basic realm=" + quoted(o.Realm) + `, charset="UTF-8"`, Forward: o.Forward, table: map[string]user{}}
	if strings.ContainsFunc(o.Realm, func(r rune) bool { return r < ' ' || r > '~' }) {
		report("realm", "realm must be of visible ASCII characters and spaces", "")
	}
	all := entries[UserOptions]{options: "users", listed: o.Users, file: "users_file"}
	if o.UsersFile != nil {
		all.filed, all.where = usersOf(o.UsersFile, report)
	} else if len(o.Users) == 0 {
		report("", "basic_auth has no users, so that nobody could pass", "write users: [{name: NAME, hash: '$2y$…'}], or users_file")
	}
	most := bcrypt.MinCost
	all.each(report, func(entry *UserOptions, report func(key, message, hint string)) {
		cost, problem := costOf(entry.Hash)
		switch {
		case strings.Contains(entry.Name, ":"):
			report("name", "name must not have a colon, which ends it (RFC 7617)", "")
		case b.table[entry.Name].principal != nil:
			report("name", "the user "+entry.Name+" is here twice", "remove one of them")
		}
		if problem != "" {
			report("hash", problem, "htpasswd -nB NAME, or mkpasswd -m bcrypt, prints one")
		}
		most = max(most, cost)
		b.table[entry.Name] = user{entry.Hash, consumerOf("name", entry.Name, entry.Tier, entry.Groups, report)}
	})
	b.Users = model.Digest(o.Users, all.filed)
	b.nobody.hash, b.dearest = unmatched(most), most
	return b
}

// usersOf reads lines of name:hash.
func usersOf(file *config.File, report model.Report) (users []UserOptions, where func(i int) string) {
	var places []string
	base, faults := filepath.Base(file.Path), 0
	for number, line := range linesOf(file.Data) {
		place := fmt.Sprintf("%s:%d", base, number)
		name, hash, ok := strings.Cut(line, ":")
		if !ok {
			report("users_file", place+": a line must be name:hash", "htpasswd -nB NAME prints one")
			faults++
			continue
		}
		users, places = append(users, UserOptions{Name: name, Hash: hash}), append(places, place)
	}
	if len(users)+faults == 0 { // as a file is while it is written anew
		report("users_file", base+": the file has no users", "write one, or leave users_file out")
	}
	return users, func(i int) string { return places[i] }
}

// linesOf yields the lines of a file with their numbers from 1, trimmed, without those
// that are empty or begin with #.
func linesOf(data []byte) func(yield func(number int, line string) bool) {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
			number++
			line = strings.Trim(line, " \t\r\n")
			if line != "" && line[0] != '#' && !yield(number, line) {
				return
			}
		}
	}
}

const (
	// mostCost bounds how long a check takes: at 16 some four seconds.
	mostCost = 16
	// digits is the length of the salt and the digest of a hash.
	digits = 22 + 31
	// radix64 is how they are written.
	radix64 = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// costOf is what a hash costs to check, and what is wrong with it. The hash is not told.
func costOf(hash string) (cost int, problem string) {
	const wanted = "hash must be of bcrypt: it begins with $2a$, $2b$ or $2y$"
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return 0, wanted
	}
	end := strings.LastIndexByte(hash, '$') + 1
	version, rest := strings.TrimPrefix(hash[:end], "$2"), hash[end:]
	switch {
	case version[0] == 'x', len(rest) != digits, strings.Trim(rest, radix64) != "":
		return 0, wanted
	case cost > mostCost:
		return 0, fmt.Sprintf("hash has the cost %d, and every check would take that long; %d is the most", cost, mostCost)
	}
	return cost, ""
}

// unmatched is a hash of a cost that is nobody's, and that no password is known for.
func unmatched(cost int) string {
	random := make([]byte, digits)
	_, _ = rand.Read(random) // it never fails
	for i := range random {
		random[i] = radix64[random[i]%64]
	}
	return fmt.Sprintf("$2a$%02d$%s", cost, random)
}

// basicGate is a basic_auth in its place in a chain.
type basicGate struct {
	*basicAuth
	passwords *passwords
}

func (g *basicGate) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		principal, err := g.identify(x)
		if err != nil {
			return err
		}
		x.Authenticate(principal)
		if !g.Forward {
			authorization.drop(x)
		}
		return next.Serve(x)
	})
}

var (
	errCredentials = errors.New("the credentials of Basic are malformed")
	errPassword    = errors.New("there is no such user with this password")
)

// authorization is where a name and a password are.
var authorization = place{Header: "Authorization", Scheme: "Basic"}

func (g *basicGate) identify(x *pipeline.Exchange) (*pipeline.Principal, error) {
	credential, there, err := authorization.find(x.Request)
	switch {
	case err != nil:
		return nil, unauthenticated(g.Challenge, err)
	case !there:
		return nil, unauthenticated(g.Challenge, errAbsent)
	}
	name, password, ok := nameAndPassword(credential)
	if !ok {
		return nil, unauthenticated(g.Challenge, errCredentials)
	}
	known, ok := g.table[name]
	if !ok { // who is not known must not show by the time that it takes
		known = g.nobody
	}
	good, err := g.passwords.check(x, &attempt{name: name, password: password, hash: known.hash, cost: g.dearest})
	switch {
	case err != nil:
		return nil, err
	case !good || known.principal == nil:
		return nil, unauthenticated(g.Challenge, errPassword)
	}
	return known.principal, nil
}

// longestPassword is what bcrypt looks at; it takes two passwords for one that differ
// after it only.
const longestPassword = 72

// nameAndPassword reads credentials (RFC 7617 2). A control character makes them
// malformed; bcrypt would take "a" and "a\x00a" for one.
func nameAndPassword(credential string) (name, password string, ok bool) {
	if len(credential) > base64.StdEncoding.EncodedLen(pipeline.LongestName+1+longestPassword) {
		return "", "", false
	}
	text, err := base64.StdEncoding.Strict().DecodeString(credential)
	if err != nil || strings.ContainsFunc(credential, unicode.IsControl) || strings.ContainsFunc(string(text), unicode.IsControl) {
		return "", "", false
	}
	name, password, ok = strings.Cut(string(text), ":")
	return name, password, ok && len(password) <= longestPassword
}
