// Package provider stands below its own sources.
package provider
