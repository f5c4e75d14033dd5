package server

import (
	"testing"

	"sluice/internal/message"
)

// What is made from a request never stands where its own fields do, nor where
// its id comes to stand, however many there are.
func TestParcel(t *testing.T) {
	for n := range fieldRoom + 3 {
		e := new(exchange)
		e.request.Fields = e.fields[:0]
		for range n {
			e.request.Fields.Add("X", "request")
		}
		e.parcel()
		made := e.TakeRoom(5)
		for range 6 {
			made.Add("X", "made")
		}
		e.request.Fields.Add("X", "id")
		e.Request = &e.request
		e.AddRequestFields(message.Fields{{Name: "X", Value: "more"}})
		left := fieldRoom
		if n+1+5 <= left {
			left -= 5
		}
		if place := &e.request.Fields[0] == &e.fields[0]; place != (n+2 <= left) {
			t.Errorf("%d fields: they grow where they stand: %v", n, place)
		}
		for i, field := range e.request.Fields {
			if want := [...]string{"request", "id", "more"}[max(i-n+1, 0)]; field.Value != want {
				t.Errorf("%d fields: %d is %q", n, i, field.Value)
			}
		}
		for _, field := range made[:5] {
			if field.Value != "made" {
				t.Errorf("%d fields: what was made is %q", n, field.Value)
			}
		}
	}
}
