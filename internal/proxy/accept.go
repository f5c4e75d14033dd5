package proxy

import (
	"errors"
	"strconv"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// accept makes the response of the attempt, which has come now, the exchange's, or
// refuses it; a refused one is closed.
func (f *forward) accept(now time.Time) error {
	response := &f.try.Response
	offered := upgradeOf(response.Fields)
	if response.Tunnel != nil && !asked(upgradeFor(f.x.Request), offered) {
		_ = response.Close() // the error at hand is the one to tell
		f.turn.Broke(now)
		return f.fail(pipeline.NewError(pipeline.UpstreamProtocol, errors.New("the endpoint changed to a protocol that the client did not ask for")))
	}
	f.kept.settle(false)
	f.watch.Answered(now, pipeline.Streams(response))
	dropHops(&response.Fields)
	pipeline.AnnounceTrailers(&response.Fields)
	response.Trailer = pipeline.Trailers(response.Trailer, nil)
	if offered != "" && (response.Tunnel != nil || response.Status == statusUpgradeRequired) {
		response.Fields.Put(message.Upgrade, offered)
		response.Fields.Put(message.Connection, "Upgrade")
	}
	appendTo(&response.Fields, message.Via, f.viaOf(response.Protocol))
	if f.x.Version != "" {
		response.Fields.Put(message.XBackendVersion, f.x.Version)
	}
	f.turn.Mark(f.x, response)
	if f.wantsAttempts() {
		f.tellAttempts(&response.Fields)
	}
	switch {
	case response.Tunnel != nil:
		response.Tunnel = &tunnel{forward: f, Tunnel: response.Tunnel}
	case response.Body != nil:
		f.watch.Came(0) // until more is read
		f.downloading = response.Body
		response.Body = (*download)(f)
	default:
		f.end()
	}
	f.x.Response = response
	return nil
}

// wantsAttempts tells whether the client asks how many attempts there were.
func (f *forward) wantsAttempts() bool { return f.x.Request.Fields.Has(message.XSluiceAttempts) }

func (f *forward) tellAttempts(fields *message.Fields) {
	fields.Put(message.XSluiceAttempts, strconv.Itoa(f.x.Attempts))
}
