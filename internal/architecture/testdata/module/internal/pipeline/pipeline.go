// Package pipeline has an init, and a default registry.
package pipeline

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"sluice/internal/message"
)

var kinds []message.Message

func init() { // want init
	kinds = append(kinds, message.Message{}) // want state
}

// Register tells everybody.
func Register(logger *slog.Logger, registry *prometheus.Registry, c prometheus.Collector) {
	logger.Info("registered")
	registry.MustRegister(c)
	slog.Info("registered")                                // want registry
	slog.SetDefault(logger)                                // want registry
	prometheus.MustRegister(c)                             // want registry
	promauto.NewCounter(prometheus.CounterOpts{Name: "x"}) // want registry
}

func fields(name string) []message.Fields {
	known := message.Field{Name: name, ID: message.Lookup(name)}
	wrong := message.Field{Name: "Host", ID: message.Date} // want field
	own := message.Fields{{Name: "X-Own", ID: message.Other}, {"Date", "", message.Date}}
	bare := message.Fields{
		{Name: "Connection"},                    // want field
		{Name: "Connection", ID: message.Other}, // want field
	}
	dynamic := message.Fields{message.Field{Value: name, Name: name}} // want field
	return []message.Fields{{known, wrong, {}}, own, bare, dynamic}
}
