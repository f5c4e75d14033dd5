package pipeline

import "time"

// KeysStatus is how the keys are that an issuer serves.
type KeysStatus struct {
	URL     string // where it serves them; empty: that is not known yet
	Keys    int
	Fetched int64 // fetches that brought keys
	Failed  int64
	Last    time.Time // when one brought keys; zero: none has
}
