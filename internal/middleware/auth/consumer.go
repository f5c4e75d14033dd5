package auth

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// consumerOf is the principal that a credential leads to. What is wrong with its names
// is reported by what is called key.
func consumerOf(key, name, tier string, groups []string, report func(key, message, hint string)) *pipeline.Principal {
	checkName(key, name, report)
	checkStanding(tier, groups, report)
	return &pipeline.Principal{Name: name, Tier: tier, Groups: groups}
}

// checkStanding reports what is wrong with a tier, which may be none, and with groups.
func checkStanding(tier string, groups []string, report func(key, message, hint string)) {
	if tier != "" {
		checkName("tier", tier, report)
	}
	for i, group := range groups {
		checkName("groups["+strconv.Itoa(i)+"]", group, report)
	}
}

func checkName(key, name string, report func(key, message, hint string)) {
	switch {
	case name == "":
		report(key, key+" is empty", "write a name")
	case !pipeline.ValidName(name):
		report(key, fmt.Sprintf("%s must be a name of at most %d bytes without control characters", key, pipeline.LongestName), "")
	}
}

// entries goes through what options list and what a file of theirs does, and tells what
// is wrong where it stands. options is the key of the list, file that of the file.
type entries[T any] struct {
	options string
	listed  []T
	file    string
	filed   []T
	where   func(i int) string // an item of the file
}

func (e *entries[T]) each(report model.Report, take func(entry *T, report func(key, message, hint string))) {
	for i := range e.listed {
		path := fmt.Sprintf("%s[%d]", e.options, i)
		take(&e.listed[i], func(key, message, hint string) {
			report(strings.TrimSuffix(path+"."+key, "."), message, hint)
		})
	}
	for i := range e.filed {
		take(&e.filed[i], func(_, message, hint string) {
			report(e.file, e.where(i)+": "+message, hint)
		})
	}
}
