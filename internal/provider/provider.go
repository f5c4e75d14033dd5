// Package provider says what a source of documents is. Each source is a package
// below this one; none of them resolves, merges or judges what it delivers.
package provider

import (
	"context"

	"sluice/internal/config"
	"sluice/internal/model"
)

// Update is everything that a provider has to say at one time; it takes the
// place of the provider's update before.
type Update struct {
	// Source is the provider's name.
	Source string
	// Documents could be read. With problems that refuse, they are not the
	// whole, and whoever uses them stays with the documents of the last good
	// update. They may equal the ones before, where something that they take
	// values from has changed.
	Documents []config.Document
	// Problems were met on the way to the documents; none are of their content.
	Problems []model.Problem
	// Forced says that someone asked for this update, whether or not anything
	// changed.
	Forced bool
}

// Provider is one source of documents.
type Provider interface {
	// Name is what updates and documents call the provider.
	Name() string
	// Run calls out with all there is, and again whenever it changes, until
	// ctx ends; then it returns nil. out is called by one goroutine at a time
	// and may take its time. An error says that the provider cannot go on.
	Run(ctx context.Context, out func(Update)) error
}
