package server

import (
	"fmt"
	"time"

	"sluice/internal/pipeline"
)

// pace holds the sender of a body to a least rate: it may be waited for as long
// as the bytes that it sent have earned, and a grace at the beginning. The zero
// value is without bound.
type pace struct {
	rate   int64         // bytes a second; 0: any
	credit time.Duration // how long the sender may still be waited for
	most   time.Duration // that fast sending can earn
}

// gave notes that waiting for n bytes took so long; false says that the sender
// is too slow.
func (p *pace) gave(n int, waited time.Duration) bool {
	if p.rate == 0 {
		return true
	}
	p.credit = min(p.credit-waited+time.Duration(n)*time.Second/time.Duration(p.rate), p.most)
	return p.credit > 0
}

// tooSlow is the error of a sender that is.
func (p *pace) tooSlow() *pipeline.Error {
	e := pipeline.NewError(pipeline.RequestTimeout, fmt.Errorf("the body came slower than min_body_rate, %d bytes a second", p.rate))
	e.Close = true
	return e
}

// tooLarge is the error of a body past limits.body.
func tooLarge(limit int64) *pipeline.Error {
	e := pipeline.NewError(pipeline.BodyTooLarge, fmt.Errorf("limits.body is %d", limit))
	e.Close = true
	return e
}
