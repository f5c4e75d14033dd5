package proxy

import (
	"net/http/httptest"
	"testing"
	"time"
)

func init() {} // want init

func TestServe(t *testing.T) {
	time.Sleep(time.Millisecond) // want sleep
	for i := 0; i < 3; i++ {
		time.Sleep(time.Millisecond) // want sleep
	}
	for deadline := time.Now(); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	for time.Now().IsZero() {
		time.Sleep(time.Millisecond)
	}
	Serve(httptest.NewRequest("GET", "/", nil))
}
