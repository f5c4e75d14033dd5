//go:build !race

package main

// race tells whether the binary under test is built with the race detector.
const race = false
