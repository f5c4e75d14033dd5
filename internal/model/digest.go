package model

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest stands for the canonical text of values, where that is too large to be kept, or
// nobody's business: equal values have equal digests, and no others.
func Digest(values ...any) string {
	sum := sha256.Sum256([]byte(Text(values)))
	return hex.EncodeToString(sum[:])
}
