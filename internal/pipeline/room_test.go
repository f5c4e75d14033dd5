package pipeline

import (
	"testing"

	"sluice/internal/message"
)

// roomy is an exchange whose request has so many fields, and room for one more, with so
// many free behind that. whole is where they are.
func roomy(fields, free int) (x *Exchange, whole message.Fields) {
	whole = make(message.Fields, fields+1+free)
	x = &Exchange{Request: &message.Request{Fields: whole[: fields : fields+1]}}
	x.GiveRoom(whole[:fields+1])
	return x, whole
}

// What is taken is the taker's alone: nothing that outgrows it writes into what
// the next one has.
func TestTakeRoom(t *testing.T) {
	var x Exchange
	if got := x.TakeRoom(3); len(got) != 0 || cap(got) < 3 {
		t.Errorf("without a room: %d of %d", len(got), cap(got))
	}
	whole := make(message.Fields, 5)
	x.GiveRoom(whole[:0])
	first, second := x.TakeRoom(2), x.TakeRoom(3)
	if cap(first) != 2 || cap(second) != 3 || &first[:1][0] != &whole[3] || &second[:1][0] != &whole[0] {
		t.Fatalf("room for %d and %d", cap(first), cap(second))
	}
	first.Add("A", "first")
	for range 4 {
		second.Add("A", "second")
	}
	if len(second) != 4 || first[0].Value != "first" {
		t.Errorf("%v, %v", first, second)
	}
	if got := x.TakeRoom(1); cap(got) < 1 {
		t.Error("no room")
	}
}

// TestAddRequestFields: the request's fields grow where they stand, as far as nobody has
// taken what is behind them.
func TestAddRequestFields(t *testing.T) {
	two := message.Fields{{Name: "A", Value: "added"}, {Name: "B", Value: "added"}}
	for _, c := range []struct {
		what          string
		fields, free  int
		before, taken int // what was added, and what is taken before
		edit          func(x *Exchange)
		where         bool // in place
	}{
		{"in the room that there is", 3, 4, 0, 0, nil, true},
		{"the last of it", 3, 1, 0, 0, nil, true},
		{"too few", 3, 0, 0, 0, nil, false},
		{"beside what is taken", 3, 4, 0, 3, nil, true},
		{"too few beside what is taken", 3, 4, 0, 4, nil, false},
		{"behind what was added", 3, 4, 1, 1, nil, true},
		{"after some were dropped", 3, 1, 0, 0, func(x *Exchange) { x.Request.Fields = x.Request.Fields[:1] }, true},
		{"after all were dropped", 3, 4, 0, 0, func(x *Exchange) { x.Request.Fields = x.Request.Fields[:0] }, true},
		{"to a list elsewhere", 3, 4, 0, 0, func(x *Exchange) { x.Request.Fields = make(message.Fields, 3, 4) }, false},
		{"to a part of the list", 3, 4, 0, 0, func(x *Exchange) { x.Request.Fields = x.Request.Fields[1:] }, false},
	} {
		x, whole := roomy(c.fields, c.free)
		x.AddRequestFields(make(message.Fields, c.before))
		taken := x.TakeRoom(c.taken)[:c.taken]
		if c.edit != nil {
			c.edit(x)
		}
		had := len(x.Request.Fields)
		x.AddRequestFields(two)
		got := x.Request.Fields
		if len(got) != had+2 || got[had].Value != "added" || got[had+1] != two[1] {
			t.Errorf("%s: %v", c.what, got)
		}
		if where := &got[0] == &whole[0]; where != c.where {
			t.Errorf("%s: in place: %v", c.what, where)
		}
		if rest := x.TakeRoom(1); len(rest) != 0 || &rest[:1][0] == &got[len(got)-1] {
			t.Errorf("%s: what was added is given away", c.what)
		}
		for _, field := range taken {
			if field.Value != "" {
				t.Errorf("%s: what was taken is %v", c.what, taken)
			}
		}
	}
}
