// Package limit holds the middleware that bounds what a client may take: body_limit,
// rate_limit and concurrency_limit; and what bounds what an upstream gets.
package limit

import (
	"io"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// BodyOptions are the options of body_limit.
type BodyOptions struct {
	Max config.Size `config:"max,required" doc:"how many bytes the body of a request may have"`
}

// bodyLimit is the settings of body_limit.
type bodyLimit struct {
	Max int64
}

// Body is the kind body_limit: a request whose body is larger is 413
// body_too_large; where the length is not told, as soon as it shows.
func Body() pipeline.Kind {
	return pipeline.NewKind("body_limit", func() *BodyOptions { return &BodyOptions{} },
		func(o *BodyOptions, _ model.Report) bodyLimit { return bodyLimit{int64(o.Max)} },
		func(_ *pipeline.Site, l bodyLimit) pipeline.Middleware { return l.middleware })
}

func (l bodyLimit) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		switch r := x.Request; {
		case r.Length > l.Max:
			return tooLarge()
		case r.Length == message.Unknown && r.Body != nil:
			r.Body = &limitedBody{ReadCloser: r.Body, left: l.Max}
		}
		return next.Serve(x)
	})
}

// limitedBody fails once more than left bytes came.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, tooLarge()
	}
	if int64(len(p))-1 > b.left { // one more tells "all" from "too much"
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, tooLarge()
	}
	return n, err
}

// tooLarge closes the connection: the rest of the body is not worth reading.
func tooLarge() error {
	err := pipeline.NewError(pipeline.BodyTooLarge, nil)
	err.Close = true
	return err
}
