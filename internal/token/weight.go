package token

import "encoding/json"

// What parts of claims take up in memory, about and rather more than less (Go's size
// classes and maps).
const (
	word      = 8
	valueSize = 2 * word // of any
	textSize  = 2*word + word
	listSize  = 3*word + word
	mapSize   = 6 * word
	slotSize  = 2*word + valueSize // a name and a value
	groupSize = 8*slotSize + word  // what a small map has its members in
)

// weigh is how many bytes a value that was read from JSON takes up in memory, about. JSON
// says nothing of that: a list of nothing but short numbers has thirty times the size of
// its text.
func weigh(value any) int {
	switch value := value.(type) {
	case string:
		return textSize + rounded(len(value))
	case json.Number:
		return textSize + rounded(len(value))
	case []any:
		size := listSize + valueSize*cap(value)
		for _, one := range value {
			size += weigh(one)
		}
		return size
	case map[string]any:
		size := mapSize
		switch n := len(value); {
		case n == 0:
		case n <= 8:
			size += groupSize
		default: // between seven eighths and less than a half of the slots are taken
			size += groupSize + 5*slotSize*n/2
		}
		for name, one := range value {
			size += rounded(len(name)) + weigh(one)
		}
		return size
	}
	return 0 // a truth value or nothing: the word in its place
}

// rounded is how much is allocated for a text.
func rounded(n int) int { return (n + 2*word - 1) / (2 * word) * (2 * word) }
