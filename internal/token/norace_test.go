//go:build !race

package token

const manyTokens = 1_000_000
