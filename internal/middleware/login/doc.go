// Package login holds the middleware that lets people log in: OpenID Connect by the
// authorization code flow (OpenID Connect Core 1.0, RFC 6749, RFC 7636). The issuer tells
// who somebody is, once; a session that the gateway keeps, in cookies or in a store, tells
// it from then on. Who may do what is for others.
package login
