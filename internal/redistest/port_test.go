package redistest

import "testing"

// TestAtFreePort takes another port where one is in use.
func TestAtFreePort(t *testing.T) {
	taken := StartTCP(t)
	s := newServer(t)
	tries := 0
	s.atFreePort(func() error {
		if tries++; tries == 1 { // somebody else was quicker
			s.Address = taken.Address
		}
		s.options = []string{"--bind", "127.0.0.1", "--port", port(s.Address)}
		return s.again()
	})
	if s.Address == taken.Address || tries != 2 {
		t.Errorf("after %d tries it is at %s", tries, s.Address)
	}
}
