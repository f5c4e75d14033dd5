package router

import (
	"hash/maphash"
)

// index finds nodes and tables by text: open addressing in one array, so that
// a look-up touches one line of it.
type index struct {
	seed  maphash.Seed
	cells []cell
	fork  fork // of the whole, where it is one table
}

// cell is empty where at is 0.
type cell struct {
	tag uint32 // of the hash, to compare few texts
	at  uint32
}

// fork is a table within an index: where it begins and how many cells it has
// less one; the number is a power of two.
type fork struct{ from, mask uint32 }

func (f fork) used() bool    { return f.mask != 0 }
func (x *index) used() bool  { return x.fork.used() }
func (l *lengths) add(n int) { n = min(n, 255); l[n/64] |= 1 << (n % 64) }
func (l *lengths) has(n int) bool {
	n = min(n, 255)
	return l[n/64]&(1<<(n%64)) != 0
}

// lengths is a set of small numbers; 255 stands for all that are greater.
type lengths [4]uint64

// grow adds a table for a number of texts, at most half full.
func (x *index) grow(count int) fork {
	size := 4
	for size < 2*count {
		size *= 2
	}
	f := fork{from: uint32(len(x.cells)), mask: uint32(size - 1)}
	x.cells = append(x.cells, make([]cell, size)...)
	return f
}

func (x *index) put(f fork, text string, at uint32) {
	hash := maphash.String(x.seed, text)
	i := uint32(hash) & f.mask
	for x.cells[f.from+i].at != 0 {
		i = (i + 1) & f.mask
	}
	x.cells[f.from+i] = cell{tag: uint32(hash >> 32), at: at}
}

// kid returns the child whose whole text rest begins with, or 0.
func (x *index) kid(r *Router, f fork, rest string) uint32 {
	hash := maphash.String(x.seed, rest[1:segmentEnd(rest)])
	cells := x.cells[f.from : f.from+f.mask+1]
	for i := uint32(hash) & f.mask; cells[i].at != 0; i = (i + 1) & f.mask {
		if cells[i].tag == uint32(hash>>32) && leads(r.part(r.nodes[cells[i].at].text), rest) {
			return cells[i].at
		}
	}
	return 0
}

// table returns the table with a name, or 0.
func (x *index) table(r *Router, name string) uint32 {
	if !x.used() {
		return 0
	}
	hash := maphash.String(x.seed, name)
	for i := uint32(hash) & x.fork.mask; x.cells[i].at != 0; i = (i + 1) & x.fork.mask {
		if x.cells[i].tag == uint32(hash>>32) && r.part(r.tables[x.cells[i].at].name) == name {
			return x.cells[i].at
		}
	}
	return 0
}
