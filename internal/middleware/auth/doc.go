// Package auth holds the middleware that finds out who a client is: by a token, a key,
// a password, a signature or a certificate. All of it leads to one principal of the
// exchange, and fails closed. What somebody may do once they are known is for others.
package auth
