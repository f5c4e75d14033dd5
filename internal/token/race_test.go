//go:build race

package token

// manyTokens is fewer with the race detector, which takes ten times as long for each.
const manyTokens = 60_000
