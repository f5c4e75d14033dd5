package server

import (
	"errors"

	"sluice/internal/netloop"
	"sluice/internal/wire"
)

// leastPiped is from how many bytes on a body goes from socket to socket by a
// pipe, without passing through this process (netloop.BenchmarkPipe).
const leastPiped = 64 << 10

// pipe streams the rest of a large body by a pipe, where its source can do so
// and the client takes it as it is. Where not, it does nothing, or stops after a
// part: then done is not set.
func (p *payload) pipe() error {
	source, ok := p.Response.Body.(netloop.PipeReader)
	if !ok || p.client.security != nil || p.framing != wire.Sized || p.left < leastPiped {
		return nil
	}
	pipe, err := p.client.conn.Executor().NewPipe()
	if err != nil {
		return nil // there is another way
	}
	defer pipe.Close()
	for !p.done {
		n, err := source.ReadInto(pipe, p.left)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		_, err = p.took(n, err)
		if n > 0 {
			if lost := p.pass(pipe); lost != nil {
				return lostClient(&p.ctx, lost)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pass writes what a pipe holds, as send does with bytes.
func (p *payload) pass(pipe *netloop.Pipe) error {
	n, err := p.deliver(p.idle, func() (int, error) { return p.client.conn.WriteFrom(pipe) })
	p.note(n, 0)
	return err
}
