package pipeline

import "encoding/json"

// LimitStatus is what people see of a limit.
type LimitStatus struct {
	Limit     string `json:"limit"` // what metrics call it
	Kind      string `json:"kind"`
	Algorithm string `json:"algorithm,omitempty"`
	Rate      string `json:"rate,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	Cost      int64  `json:"cost,omitempty"` // of a request; 0: 1
	Mode      string `json:"mode,omitempty"`
	// Tiers are the numbers of those who have others.
	Tiers []TierStatus `json:"tiers,omitempty"`
	// Key is what it counts by, and IPv6Prefix how many bits of an address of IPv6; 0: all,
	// or no address.
	Key        []string `json:"key,omitempty"`
	IPv6Prefix int      `json:"ipv6_prefix,omitempty"`
	// Keys is how many keys it knows something of by itself, and Evicted how many it
	// has forgotten because there were too many.
	Keys    int   `json:"keys"`
	Evicted int64 `json:"evicted"`

	Max     int `json:"max,omitempty"` // exchanges at once, of a key
	Running int `json:"-"`             // of all keys; see MarshalJSON
	Waiting int `json:"-"`

	// Adaptive is how many may wait for their responses now, of each key of a limit that
	// finds out: of those with the most to do, so that it stays short.
	Adaptive []AdaptiveStatus `json:"adaptive,omitempty"`

	AdaptiveRate *AdaptiveRateStatus `json:"adaptive_rate,omitempty"` // nil: its rate is as it is written

	Store *LimitStoreStatus `json:"store,omitempty"` // nil: memory
}

// TierStatus is what people see of a tier of a limit.
type TierStatus struct {
	Tier  string `json:"tier"`
	Rate  string `json:"rate"`
	Burst int64  `json:"burst,omitempty"`
}

// Concurrent tells whether it is one of exchanges at once, of which some run and some wait.
func (s *LimitStatus) Concurrent() bool { return s.Kind == "concurrency_limit" }

// limitText is a LimitStatus in JSON.
type limitText struct {
	*plainStatus
	Running *int `json:"running,omitempty"`
	Waiting *int `json:"waiting,omitempty"`
}

type plainStatus LimitStatus

// MarshalJSON has running and waiting where there is such a thing, also when nobody does.
func (s LimitStatus) MarshalJSON() ([]byte, error) {
	text := limitText{plainStatus: (*plainStatus)(&s)}
	if s.Concurrent() {
		text.Running, text.Waiting = &s.Running, &s.Waiting
	}
	return json.Marshal(text) //nolint:wrapcheck // it is the caller's own
}

// UnmarshalJSON takes what MarshalJSON wrote.
func (s *LimitStatus) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &limitText{(*plainStatus)(s), &s.Running, &s.Waiting}) //nolint:wrapcheck // it is the caller's own
}

// LimitStoreStatus is what people see of the store of a limit.
type LimitStoreStatus struct {
	Name      string `json:"name"`
	Sync      string `json:"sync"` // exact or lease
	Answers   bool   `json:"answers"`
	Instances int64  `json:"instances"` // as last known
	OnFailure string `json:"on_failure"`
}

// AdaptiveStatus is what people see of a key of an adaptive concurrency limit.
type AdaptiveStatus struct {
	Key     string  `json:"key,omitempty"` // empty too where clients have a say in it
	Limit   int     `json:"limit"`
	Base    float64 `json:"base_ms"` // how long a response takes to begin without a queue; 0: not known yet
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
}
