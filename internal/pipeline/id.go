package pipeline

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"
)

// newID returns a UUIDv7 (RFC 9562 5.7): milliseconds, then chance. It is written
// out here since every request takes one, and what libraries offer allocates
// three times and asks the system for each. Nobody must be kept from guessing
// one; the generator is the runtime's own, seeded by the system.
func newID(now time.Time) string {
	var id [16]byte
	high, low := rand.Uint64(), rand.Uint64() //nolint:gosec // G404: see above
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|7<<12|high&0xfff)
	binary.BigEndian.PutUint64(id[8:], 2<<62|low>>2)
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	for _, dash := range [...]int{8, 13, 18, 23} {
		text[dash] = '-'
	}
	return string(text[:])
}
