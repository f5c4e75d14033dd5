package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"sluice/internal/model"
)

// statuses are statuses of responses: one, a range, or a list of both. nil: none
// are written.
type statuses []statusRange

func (s *statuses) decode(d *decoder, n *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		d.list(n, reflect.ValueOf(s).Elem())
	case yaml.MappingNode:
		d.mismatch(n, "a status, a range such as 200-399, or a list of them", "")
	default:
		var one statusRange
		d.into(n, &one)
		*s = statuses{one}
	}
}

// statusRange is one status, or all from one to another.
type statusRange model.StatusRange

var statusForm = regexp.MustCompile(`^[1-5][0-9]{2}$`)

func (*statusRange) want() string { return "a status such as 503, or a range such as 500-599" }

func (r *statusRange) set(s scalar) *fault {
	first, last, isRange := strings.Cut(s.s, "-")
	if !isRange {
		last = first
	}
	if !statusForm.MatchString(first) || !statusForm.MatchString(last) {
		return unwanted(classHint(s.s))
	}
	if last < first { // of three digits each
		return faulty(fmt.Sprintf("ends before it begins: %s", s.written), fmt.Sprintf("write %s-%s", last, first))
	}
	r.First, _ = strconv.Atoi(first) // the form is a number's
	r.Last, _ = strconv.Atoi(last)
	return nil
}

// classHint says how a class such as 5xx is written.
func classHint(text string) string {
	if len(text) == 3 && '1' <= text[0] && text[0] <= '5' && strings.EqualFold(text[1:], "xx") {
		return fmt.Sprintf("write %c00-%c99", text[0], text[0])
	}
	return ""
}

// failures are the statuses that count as failures, sorted. Those that are none
// of an error are problems.
func (r *resolver) failures(s statuses, at func(i int) place) []int {
	list := []int{}
	for i, one := range s {
		if one.First < 400 {
			r.out.add(at(i), fmt.Sprintf("failure_status must be from 400 to 599, not %v", one), "")
			continue
		}
		for status := one.First; status <= one.Last; status++ {
			list = append(list, status)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// String is the range as one writes it.
func (r statusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}
