// Package resilience decides when something that fails is left alone: circuit
// breakers, budgets of repetitions, ejections, and the windows and averages that
// they rest on. All of them are state machines that are told the time: they have
// no clock, no goroutine and no socket, and know nothing of HTTP. They are safe
// for use by any number of goroutines, whose times may differ a little.
//
// The circuit breaker is this package's own since neither of the libraries that
// the field uses does what it must. Both ask the system for the time, and tell
// neither slow calls from failures nor how many are needed from how many may run
// at once. sony/gobreaker (2.4) counts the probes of a half-open state in total,
// not at once, makes a closure for each decision, and calls back with its lock
// held. failsafe-go (0.9) takes a result without knowing which state it belongs
// to, has either consecutive failures or a rate, and never says when a half-open
// state that is full is worth another try.
package resilience
