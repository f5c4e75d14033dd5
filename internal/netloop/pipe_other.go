//go:build unix && !linux

package netloop

// pipe is nothing: there is no splice here.
type pipe struct {
	owner *pipes
	held  int
}

func newPipe(int) (*pipe, error) { return nil, errNoPipe }

func (p *pipe) highest() int { return 0 }

func (p *pipe) close() {}

// ReadInto is Read into a pipe, of which there is none.
func (c *goConn) ReadInto(p *Pipe, n int64) (int, error) { return p.fill(n), errNoPipe }

// WriteFrom is Write of what a pipe holds.
func (c *goConn) WriteFrom(*Pipe) (int, error) { return 0, errNoPipe }
