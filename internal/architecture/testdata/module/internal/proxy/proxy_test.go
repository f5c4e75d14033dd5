package proxy

import (
	"net/http/httptest"
	"testing"
	"time"
)

func init() {} // want init

func TestServe(t *testing.T) {
	time.Sleep(time.Millisecond) // want sleep
	Serve(httptest.NewRequest("GET", "/", nil))
}
