package config

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as Go writes it: 250ms, 30s, 1h30m. Never negative.
type Duration time.Duration

func (*Duration) want() string { return "a duration such as 250ms or 30s" }

func (v *Duration) set(s scalar) *fault {
	duration, err := time.ParseDuration(s.s)
	switch {
	case err != nil && s.nature() == isInt:
		if _, err := time.ParseDuration(s.s + "s"); err != nil {
			return faulty("is too long", "")
		}
		return unwanted("add a unit: " + s.written + "s")
	case err != nil:
		return unwanted("")
	case duration < 0:
		return faulty("must not be negative", "")
	}
	*v = Duration(duration)
	return nil
}

// String is the duration without units that are zero.
func (v Duration) String() string {
	if v == 0 {
		return "0"
	}
	text := time.Duration(v).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size is a number of bytes: 64KiB, 10MB, or a plain number. Never negative.
type Size int64

func (*Size) want() string { return "a size such as 64KiB, 10MB or a number of bytes" }

func (v *Size) set(s scalar) *fault {
	size, ok := parseSize(s.s)
	if s.nature() == isInt {
		number, err := s.integer()
		size, ok = number, err == nil
	}
	switch {
	case !ok:
		return unwanted(sizeHint(s.s))
	case size < 0:
		return faulty("must not be negative", "")
	}
	*v = Size(size)
	return nil
}

// String is the size in the largest unit that it is whole in.
func (v Size) String() string {
	for i := len(sizeUnits) - 1; i >= 0; i-- {
		if unit := sizeUnits[i]; unit.factor > 1 && v != 0 && int64(v)%unit.factor == 0 {
			return strconv.FormatInt(int64(v)/unit.factor, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(v), 10)
}

// sizeUnits are the units of sizes; those of powers of 1024 stand last, so that
// String prefers them.
var sizeUnits = []struct {
	name   string
	factor int64
}{
	{"B", 1}, {"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
}

func parseSize(s string) (int64, bool) {
	number, factor := s, int64(1)
	for _, unit := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, unit.name); ok && rest != "" && rest[len(rest)-1] < 'A' {
			number, factor = strings.TrimSuffix(rest, " "), unit.factor
		}
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		if whole > math.MaxInt64/factor || whole < math.MinInt64/factor {
			return 0, false
		}
		return whole * factor, true
	}
	if !floatForm.MatchString(number) {
		return 0, false
	}
	fraction, err := strconv.ParseFloat(number, 64)
	size := fraction * float64(factor)
	if err != nil || size != math.Trunc(size) || math.Abs(size) > 1<<53 {
		return 0, false
	}
	return int64(size), true
}

func sizeHint(s string) string {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	if digits == "" || digits == s {
		return ""
	}
	unit := strings.ToUpper(strings.TrimSpace(s[len(digits):])[:1])
	if _, ok := parseSize(digits + unit + "iB"); !ok {
		return "" // it is no number, of no unit, or too large
	}
	return "write " + digits + unit + "iB or " + digits + unit + "B"
}

// ByteRate is a number of bytes a second: 240B/s, 10KiB/s. Never negative.
type ByteRate int64

func (*ByteRate) want() string { return "a rate of bytes such as 240B/s" }

func (v *ByteRate) set(s scalar) *fault {
	if s.s == "0" {
		*v = 0
		return nil
	}
	number, ok := strings.CutSuffix(s.s, "/s")
	size, valid := parseSize(number)
	switch {
	case !ok || !valid:
		return unwanted("")
	case size < 0:
		return faulty("must not be negative", "")
	}
	*v = ByteRate(size)
	return nil
}

// String is the rate as one writes it.
func (v ByteRate) String() string {
	text := Size(v).String()
	if last := text[len(text)-1]; last != 'B' {
		text += "B"
	}
	return text + "/s"
}

// Rate is a number of events in a length of time: 100/s, 5000/m, 10/h.
type Rate struct {
	Count int64 // more than 0
	Per   time.Duration
}

func (*Rate) want() string { return "a rate such as 100/s, 5000/m or 10/h" }

func (v *Rate) set(s scalar) *fault {
	number, unit, _ := strings.Cut(s.s, "/")
	count, err := strconv.ParseInt(number, 10, 64)
	per, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	switch {
	case err != nil || !ok:
		return unwanted(rateHint(s))
	case count <= 0:
		return faulty("must be more than 0", "")
	}
	*v = Rate{count, per}
	return nil
}

// rateHint says how a text that is no rate becomes one, if it does.
func rateHint(s scalar) string {
	number, unit, found := strings.Cut(s.s, "/")
	number, unit = strings.TrimSpace(number), strings.ToLower(strings.TrimSpace(unit))
	count, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || !floatForm.MatchString(number) || count <= 0:
		return ""
	case !found && count == math.Trunc(count):
		return "say in which time: " + s.written + "/s"
	case !found:
		return ""
	}
	if len(unit) > len("ms") {
		unit = strings.TrimSuffix(unit, "s")
	}
	for i, names := range [][]string{{"s", "sec", "second"}, {"m", "min", "minute"}, {"h", "hr", "hour"}} {
		if !slices.Contains(names, unit) {
			continue
		}
		for ; i < 3; i++ { // of a fraction the first time in which it is whole
			if count == math.Trunc(count) && count < 1<<53 {
				return fmt.Sprintf("write %.0f/%c", count, "smh"[i])
			}
			count *= 60
		}
	}
	if unit == "d" || unit == "day" {
		return "the longest time is an hour"
	}
	return ""
}

// String is the rate as one writes it.
func (v Rate) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[v.Per]
	return fmt.Sprintf("%d/%s", v.Count, unit)
}

// Percent is a share from 0 to 1, written from 0% to 100%.
type Percent float64

func (*Percent) want() string { return "a percentage such as 20%" }

func (v *Percent) set(s scalar) *fault {
	number, ok := strings.CutSuffix(s.s, "%")
	share, err := strconv.ParseFloat(number, 64)
	switch {
	case !ok && s.nature() == isInt && 0 <= share && share <= 100:
		return unwanted("write " + s.written + "%")
	case !ok || err != nil || !floatForm.MatchString(number) || math.IsInf(share, 0):
		return unwanted("")
	case share < 0 || share > 100:
		return faulty("must be from 0% to 100%", "")
	}
	*v = Percent(share / 100)
	return nil
}

// String is the percentage as one writes it.
func (v Percent) String() string { return strconv.FormatFloat(float64(v)*100, 'f', -1, 64) + "%" }

// Prefix is a range of addresses: 10.0.0.0/8, or one address. It is masked, and
// an IPv4-mapped one is IPv4.
type Prefix struct{ netip.Prefix }

func (*Prefix) want() string { return "an address such as 10.1.2.3 or a range such as 10.0.0.0/8" }

func (v *Prefix) set(s scalar) *fault {
	if address, err := netip.ParseAddr(s.s); err == nil {
		if address.Zone() != "" {
			return faulty("must not have a zone", "leave the % and what follows it out")
		}
		address = address.Unmap()
		v.Prefix = netip.PrefixFrom(address, address.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(s.s)
	if err != nil {
		return unwanted("")
	}
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	if masked := prefix.Masked(); masked != prefix {
		return faulty(fmt.Sprintf("has bits set beyond its length of %d", prefix.Bits()), "write "+masked.String())
	}
	v.Prefix = prefix
	return nil
}
