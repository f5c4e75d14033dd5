package transport

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// complainEvery is how long a cause is not told of again.
	complainEvery = time.Minute
	// mostComplaints is how many causes are told of in that time.
	mostComplaints = 4
)

// complaints are the causes for which an endpoint was not reached, as they were
// told lately: its attempts may fail many times a second.
type complaints struct {
	mu    sync.Mutex
	since time.Time
	told  []string
}

// due tells whether a cause is to be told, and notes that it was.
func (c *complaints) due(cause error, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.since) >= complainEvery {
		c.since, c.told = now, c.told[:0]
	}
	kind := kindOf(cause)
	if len(c.told) == mostComplaints || slices.Contains(c.told, kind) {
		return false
	}
	c.told = append(c.told, kind)
	return true
}

// kindOf is what a cause has in common with the next of its kind: neither the time
// of day nor the port that was taken for a connection.
func kindOf(cause error) string {
	var invalid x509.CertificateInvalidError
	var operation *net.OpError
	switch {
	case errors.As(cause, &invalid):
		return fmt.Sprintf("invalid certificate: %d", invalid.Reason)
	case errors.As(cause, &operation) && operation.Err != nil:
		return operation.Op + ": " + operation.Err.Error()
	}
	return cause.Error()
}

// unreached tells why no connection to the endpoint was made.
func (w *way) unreached(cause error) {
	if w.observer.Unreached != nil && w.complaints.due(cause, time.Now()) {
		w.observer.Unreached(w.upstream, w.endpoint.URL, cause)
	}
}
