package rpc

import (
	"math"
	"strconv"
	"time"
)

// maxDigits is how many digits a time-out may have.
const maxDigits = 8

// units are what the letters of a time-out stand for, the finest first.
var units = [...]struct {
	letter byte
	length time.Duration
}{{'n', time.Nanosecond}, {'u', time.Microsecond}, {'m', time.Millisecond}, {'S', time.Second}, {'M', time.Minute}, {'H', time.Hour}}

// ParseTimeout reads a value of grpc-timeout: up to eight digits and a unit. It
// may be zero. One of more than 292 years counts as that.
func ParseTimeout(value string) (timeout time.Duration, ok bool) {
	if len(value) < 2 || len(value) > maxDigits+1 {
		return 0, false
	}
	digits, letter := value[:len(value)-1], value[len(value)-1]
	n := int64(0)
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = 10*n + int64(digits[i]-'0')
	}
	for _, unit := range units {
		if unit.letter != letter {
			continue
		}
		if n > math.MaxInt64/int64(unit.length) {
			return math.MaxInt64, true
		}
		return time.Duration(n) * unit.length, true
	}
	return 0, false
}

// FormatTimeout is the value of grpc-timeout for a time-out, in the finest unit
// that has room for it, rounded up. What is over is zero.
func FormatTimeout(timeout time.Duration) string {
	timeout = max(timeout, 0)
	for _, unit := range units {
		n := int64(timeout / unit.length)
		if timeout%unit.length > 0 {
			n++
		}
		if n < 1e8 {
			return strconv.FormatInt(n, 10) + string(unit.letter)
		}
	}
	panic("BUG: a time-out has more than 99999999 hours")
}
