package access

import (
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// anybodys tells whether anybody can have a host below another: https://*.com, and
// https://*.github.io, are the pages of all. A name that nobody registers, as localhost,
// is no such one.
func anybodys(host string) bool {
	host = strings.TrimSuffix(host, ".") // the root is no label
	domain, managed := publicsuffix.PublicSuffix(host)
	return domain == host && (managed || strings.Contains(host, "."))
}

// domainOf is the part of an origin's host that one can register; empty where there is
// none. A host of one label is somebody's own.
func domainOf(origin string) string {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme+"://"+u.Host != origin || !strings.Contains(u.Hostname(), ".") {
		return ""
	}
	host := u.Hostname()
	if suffix, managed := publicsuffix.PublicSuffix(host); !managed && !strings.Contains(suffix, ".") {
		return suffix // a network's own
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// stranger finds an origin that a regex matches although nobody means it; empty: none.
// Of texts that the regex matches, those that differ only where it takes anything must
// be of one domain.
func stranger(regex *regexp.Regexp) string {
	for _, origin := range strangers {
		if regex.MatchString(origin) {
			return origin
		}
	}
	tree, err := syntax.Parse(regex.String(), syntax.Perl)
	if err != nil {
		return ""
	}
	for choice := range 2 * mostBranches {
		for at := range mostGaps {
			for _, before := range []string{"", "https://"} {
				s := sample{optional: choice%2 == 1, branch: choice / 2, at: at, fill: before + "any"}
				one := s.of(tree)
				if s.gaps <= at {
					break
				}
				s.gaps, s.fill = 0, before+"evil"
				other := s.of(tree)
				if domain := domainOf(other); domain != "" && domain != domainOf(one) && regex.MatchString(one) && regex.MatchString(other) {
					return other
				}
			}
		}
	}
	return ""
}

// How many alternatives, and places where anything may stand, of a regex are tried.
const (
	mostBranches = 8
	mostGaps     = 16
)

// sample makes a text of a regex.
type sample struct {
	optional bool   // whether what may be left out is there
	branch   int    // of alternatives
	at       int    // the gap that is filled
	fill     string // by this, or, if there is but one character, by the first of it
	gaps     int    // that were found
}

func (s *sample) of(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return strings.ToLower(string(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return s.gap(".")[:1]
	case syntax.OpCharClass:
		if covers(re.Rune) {
			return s.gap("w")[:1]
		}
		return string(re.Rune[:1])
	case syntax.OpCapture:
		return s.of(re.Sub[0])
	case syntax.OpConcat:
		var text strings.Builder
		for _, part := range re.Sub {
			text.WriteString(s.of(part))
		}
		return text.String()
	case syntax.OpAlternate:
		return s.of(re.Sub[s.branch%len(re.Sub)])
	case syntax.OpQuest, syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		return s.repeated(re)
	default: // the beginning, the end, or nothing
		return ""
	}
}

func (s *sample) repeated(re *syntax.Regexp) string {
	part := re.Sub[0]
	for part.Op == syntax.OpCapture {
		part = part.Sub[0]
	}
	most, least := -1, 0
	switch re.Op {
	case syntax.OpRepeat:
		most, least = re.Max, re.Min
	case syntax.OpQuest:
		most = 1
	case syntax.OpPlus:
		least = 1
	default: // any number
	}
	anything := part.Op == syntax.OpAnyChar || part.Op == syntax.OpAnyCharNotNL || part.Op == syntax.OpCharClass && covers(part.Rune)
	switch {
	case anything && (most < 0 || most >= len(s.fill)):
		return s.gap(strings.Repeat("w", max(1, least)))
	case least > 0:
		return strings.Repeat(s.of(part), least)
	case s.optional:
		return s.of(part)
	}
	return ""
}

// gap is what stands where anything may: the filling, or what stands for nothing in
// particular.
func (s *sample) gap(otherwise string) string {
	s.gaps++
	if s.gaps-1 == s.at {
		return s.fill
	}
	return otherwise
}

// covers tells whether a class, by its ranges, has all letters.
func covers(ranges []rune) bool {
	for letter := 'a'; letter <= 'z'; letter++ {
		if !slices.ContainsFunc(pairs(ranges), func(r [2]rune) bool { return r[0] <= letter && letter <= r[1] }) {
			return false
		}
	}
	return true
}

func pairs(ranges []rune) (list [][2]rune) {
	for i := 0; i+1 < len(ranges); i += 2 {
		list = append(list, [2]rune{ranges[i], ranges[i+1]})
	}
	return list
}
