package netloop

// timer is a time at which its owner wants to be looked at. The zero value is
// not set.
type timer struct {
	owner expirer
	at    int64 // nanoseconds, as its loop counts
	place int   // in the heap, from 1; 0: not set
}

// expirer is what is looked at. Its timer is not set any more then.
type expirer interface{ expired() }

// timers is a heap. An entry is moved only when its time comes nearer; one that
// comes too early is put back by its owner, so that moving a deadline on, as
// every exchange does, costs nothing.
type timers struct{ heap []*timer }

// ask sees to it that the timer's owner is looked at by a time.
func (h *timers) ask(t *timer, at int64) {
	switch {
	case t.place == 0:
		h.heap = append(h.heap, t)
		t.at, t.place = at, len(h.heap)
		h.up(t.place - 1)
	case at < t.at:
		t.at = at
		h.up(t.place - 1)
	}
}

// next is when the first entry is due; 0 without any.
func (h *timers) next() int64 {
	if len(h.heap) == 0 {
		return 0
	}
	return h.heap[0].at
}

// due takes off the first entry, if it is due; else it returns nil.
func (h *timers) due(now int64) *timer {
	if len(h.heap) == 0 || h.heap[0].at > now {
		return nil
	}
	t := h.heap[0]
	h.remove(t)
	return t
}

func (h *timers) remove(t *timer) {
	if t.place == 0 {
		return
	}
	i, last := t.place-1, len(h.heap)-1
	h.swap(i, last)
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.place = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *timers) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].place, h.heap[j].place = i+1, j+1
}

func (h *timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.heap[parent].at <= h.heap[i].at {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.heap) {
			return
		}
		if right := child + 1; right < len(h.heap) && h.heap[right].at < h.heap[child].at {
			child = right
		}
		if h.heap[i].at <= h.heap[child].at {
			return
		}
		h.swap(i, child)
		i = child
	}
}
