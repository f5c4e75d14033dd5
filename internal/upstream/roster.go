package upstream

import (
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"sluice/internal/discovery"
	"sluice/internal/lease"
	"sluice/internal/model"
)

// roster keeps the endpoints of an upstream that are looked up. It is on lease,
// and holds a set of its own for those of now.
type roster struct {
	registry *lease.Registry
	builder  *builder
	names    *discovery.Names
	current  atomic.Pointer[roll]
	ready    chan struct{} // closed once they are known, or cannot be found out
	cancel   func()        // of the subscription; the registry guards it

	mu       sync.Mutex // guards what follows
	set      *lease.Set
	released bool
}

func newRoster(registry *lease.Registry, b *builder, names *discovery.Names) *roster {
	return &roster{registry: registry, builder: b, names: names, ready: make(chan struct{})}
}

// asked tells whether the first look-up is over.
func (r *roster) asked() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// Start begins to follow the names.
func (r *roster) Start() error {
	r.builder.shared.latest.Store(r)
	r.cancel = r.names.Subscribe(func(*discovery.Answer) { r.follow() })
	go func() { // the registry, which calls, is locked
		<-r.names.First()
		r.follow()
		close(r.ready)
	}()
	return nil
}

// follow makes the endpoints those of the names' answer.
func (r *roster) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer := r.names.Answer()
	if r.released || answer == nil || answer.At.IsZero() {
		return
	}
	set := r.registry.NewSet()
	next := r.builder.roll(set, endpointsOf(r.builder.m.DNS, answer.Addresses))
	if err := set.Commit(); err != nil {
		panic("BUG: what an endpoint holds does not start: " + err.Error())
	}
	r.current.Store(next)
	if r.set != nil {
		r.set.Release()
	}
	r.set = set
}

// Release ends the following, and lets the endpoints go: after the one that takes
// its place has them, so that what is known of them is not lost.
func (r *roster) Release() {
	r.cancel()
	go func() { // the registry, which calls, is locked
		<-r.builder.shared.latest.Load().ready
		r.mu.Lock()
		defer r.mu.Unlock()
		r.released = true
		if r.set != nil {
			r.set.Release()
		}
	}()
}

// endpointsOf are the endpoints at the addresses that were found.
func endpointsOf(m *model.DNS, addresses []discovery.Address) []model.Endpoint {
	list := make([]model.Endpoint, 0, len(addresses))
	for _, a := range addresses {
		address := net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
		list = append(list, model.Endpoint{URL: m.Scheme + "://" + address, Scheme: m.Scheme, Address: address, Host: hostOf(m, a), Weight: a.Weight})
	}
	return list
}

// hostOf is the authority of an endpoint: by the name that was looked up, which is
// what its certificate is for, not by one of its addresses.
func hostOf(m *model.DNS, a discovery.Address) string {
	usual := m.Scheme == "http" && a.Port == 80 || m.Scheme == "https" && a.Port == 443
	if usual {
		return m.Name
	}
	return net.JoinHostPort(m.Name, strconv.Itoa(a.Port))
}
