package limit

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// keyOf is what an exchange is counted by. Of several keys each value has its length,
// so that no two lists of values are one text.
func keyOf(x *pipeline.Exchange, keys []model.Key) string {
	if len(keys) == 1 {
		value, _ := pipeline.KeyOf(x, &keys[0])
		return value
	}
	var room [256]byte
	text := room[:0]
	for i := range keys {
		value, _ := pipeline.KeyOf(x, &keys[i])
		text = strconv.AppendInt(text, int64(len(value)), 10)
		text = append(text, ':')
		text = append(text, value...)
	}
	return string(text)
}

// validatePrefix has keys by the client's address count addresses of IPv6 by so many bits;
// nil: by all.
func validatePrefix(keys []model.Key, bits *int, report model.Report) {
	byAddress := func(key model.Key) bool { return key.Source == model.KeyClientIP }
	switch {
	case bits == nil:
	case *bits < 1 || *bits > wholeAddress:
		report("ipv6_prefix", fmt.Sprintf("ipv6_prefix must be from 1 to %d, not %d", wholeAddress, *bits), "leave it out for the whole address")
	case !slices.ContainsFunc(keys, byAddress):
		report("ipv6_prefix", "ipv6_prefix needs the key client_ip, by which this does not count", "add client_ip to key, or remove ipv6_prefix")
	case *bits < wholeAddress:
		for i := range keys {
			if byAddress(keys[i]) {
				keys[i].IPv6Prefix = *bits
			}
		}
	}
}

// wholeAddress is how many bits an address of IPv6 has.
const wholeAddress = 128

// showKeys tells people what a limit counts by.
func showKeys(status *pipeline.LimitStatus, keys []model.Key) {
	for i := range keys {
		status.Key = append(status.Key, keys[i].String())
		status.IPv6Prefix = max(status.IPv6Prefix, keys[i].IPv6Prefix)
	}
}
