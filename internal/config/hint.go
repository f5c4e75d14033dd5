package config

import (
	"fmt"
	"strings"
)

// fewNames is how many names a hint lists when none of them is near.
const fewNames = 12

// hint names the candidate that is nearest to a misspelled name, or lists them
// if they are few.
func (c *collector) hint(name string, candidates []string) string {
	if near := c.nearest(name, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(candidates) > 0 && len(candidates) <= fewNames {
		return "known here: " + strings.Join(candidates, ", ")
	}
	return ""
}

// nearest returns the candidate with the smallest edit distance to name, if it
// is small enough to be meant. Case, - and _ do not count.
func (c *collector) nearest(name string, candidates []string) string {
	plain := plainName(name)
	best, bestDistance := "", max(1, min(3, len(plain)/3))+1
	if len(plain) > 100 || len(c.problems) > mostProblems {
		return ""
	}
	for _, candidate := range candidates {
		if c.hints--; c.hints < 0 {
			break
		}
		other := plainName(candidate)
		if difference := len(plain) - len(other); difference >= bestDistance || -difference >= bestDistance {
			continue
		}
		if distance := distance(plain, other); distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

func plainName(name string) string {
	var plain []byte
	for i := range len(name) {
		switch c := name[i]; {
		case c == '-' || c == '_':
		case 'A' <= c && c <= 'Z':
			plain = append(plain, c-'A'+'a')
		default:
			plain = append(plain, c)
		}
	}
	return string(plain)
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and exchanges of neighbours, each once.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := boolInt(a[i-1] != b[j-1])
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
