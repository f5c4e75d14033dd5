// The side-by-side benchmark of `make bench`, apart from the product: nothing
// here reaches its module graph.
module sluice/bench

go 1.26.0

require (
	github.com/sethvargo/go-limiter v0.7.1
	golang.org/x/time v0.16.0
	sluice v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace sluice => ../
