// Package util stands nowhere, under a name that says nothing.
package util // want package name
