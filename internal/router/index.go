package router

import "hash/maphash"

// index finds places by text: open addressing in one array, so that
// a look-up touches one line of it.
type index struct {
	seed  maphash.Seed
	cells []cell
	fork  fork // of the whole, where it is one table
}

// cell is empty where it has no place.
type cell struct {
	tag uint32 // of the hash, to compare few texts
	kid
}

// fork is a table within an index: where it begins and how many cells it has
// less one; the number is a power of two.
type fork struct{ from, mask uint32 }

func (f fork) used() bool { return f.mask != 0 }

// grow adds a table for a number of texts, at most three quarters full.
func (x *index) grow(count int) fork {
	size := 4
	for 3*size < 4*count {
		size *= 2
	}
	f := fork{from: uint32(len(x.cells)), mask: uint32(size - 1)}
	x.cells = append(x.cells, make([]cell, size)...)
	return f
}

// put adds what is found by a key.
func (x *index) put(f fork, key string, k kid) {
	hash := maphash.String(x.seed, key)
	i := uint32(hash) & f.mask
	for x.cells[f.from+i].at != 0 {
		i = (i + 1) & f.mask
	}
	x.cells[f.from+i] = cell{tag: uint32(hash >> 32), kid: k}
}

// kid returns the child whose segments a path begins with, and how long they
// are, or 0. Its key is its first segment.
func (x *index) kid(text string, f fork, path string) (at uint32, length int) {
	hash := maphash.String(x.seed, path[1:segmentEnd(path)])
	tag := uint32(hash >> 32)
	cells := x.cells[f.from:][:f.mask+1]
	for i := uint32(hash) & f.mask; ; i = (i + 1) & f.mask {
		c := &cells[i]
		if c.at == 0 {
			return 0, 0
		}
		if segments := text[c.text.from:c.text.to]; c.tag == tag && leads(segments, path) {
			return c.at, len(segments)
		}
	}
}

// find returns the place with a name, or 0.
func (x *index) find(text, name string) uint32 {
	if !x.fork.used() {
		return 0
	}
	hash := maphash.String(x.seed, name)
	tag := uint32(hash >> 32)
	for i := uint32(hash) & x.fork.mask; ; i = (i + 1) & x.fork.mask {
		c := &x.cells[i]
		if c.at == 0 || c.tag == tag && text[c.text.from:c.text.to] == name {
			return c.at
		}
	}
}

// lengths is a set of small numbers; 255 stands for all that are greater.
type lengths [4]uint64

func (l *lengths) add(n int) {
	n = min(n, 255)
	l[n/64] |= 1 << (n % 64)
}

func (l *lengths) has(n int) bool {
	n = min(n, 255)
	return l[n/64]&(1<<(n%64)) != 0
}
