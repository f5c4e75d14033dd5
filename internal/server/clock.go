package server

import (
	"net/http"
	"sync/atomic"
	"time"
)

// clock tells the date (RFC 9110 6.6.1), made once a second.
type clock struct{ now atomic.Pointer[moment] }

type moment struct {
	second int64
	text   string
}

func (c *clock) date() string {
	now := time.Now()
	last := c.now.Load()
	if last == nil || last.second != now.Unix() {
		last = &moment{now.Unix(), now.UTC().Format(http.TimeFormat)}
		c.now.Store(last)
	}
	return last.text
}
