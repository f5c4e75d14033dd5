package config

import "strconv"

// Number is a number with a fraction: 0.2, 2. Never negative.
type Number float64

func (*Number) want() string { return "a number such as 0.2" }

func (v *Number) set(s scalar) *fault {
	number, err := strconv.ParseFloat(s.s, 64)
	switch nature := s.nature(); {
	case nature != isInt && nature != isFloat || err != nil:
		return unwanted("")
	case number < 0:
		return faulty("must not be negative", "")
	}
	*v = Number(number)
	return nil
}

// String is the number as one writes it.
func (v Number) String() string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }
