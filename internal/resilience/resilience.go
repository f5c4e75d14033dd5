// Package resilience decides when something that fails is left alone, and how much is
// let through: circuit breakers, budgets of repetitions, ejections, token buckets,
// sliding windows, limits of concurrency and of rates that adapt, and the windows and
// averages that they rest on. All of them are state machines that are told the time: they have
// no clock, no goroutine and no socket, and know nothing of HTTP. All but Window are
// safe for use by any number of goroutines, whose times may differ a little.
//
// Breakers and what belongs to them are told a time.Time. Limits are told how long ago
// a beginning was that all of them share, so that a bucket is one word.
//
// The circuit breaker is this package's own since neither of the libraries that
// the field uses does what it must. Both ask the system for the time, tie how many
// probes may run at once to how many must succeed, and do not know slow calls from
// failures. sony/gobreaker (2.4) makes a closure for each request that does not end
// in the function where it began, calls back with its lock held, and never tells how
// long it stays open. failsafe-go (0.9) takes a result without asking which state its
// request belongs to, so that a late one closes a half-open breaker, and opens by
// failures in a row or by a rate, not by either. A decision with its result takes the
// first 150 ns and the second 90 ns, where it takes 45 here (docs/benchmarks.md).
package resilience
