package message_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/message"
	"sluice/internal/server" // want layer
)

var calls int

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { time.Sleep(time.Hour) })
	calls++
	_, _ = gatewaytest.Start(new(message.Message)), server.Serve
	_ = http.StatusOK
}
