// The side-by-side benchmark of `make bench`, apart from the product: nothing
// here reaches its module graph.
module sluice/bench

go 1.26.0
