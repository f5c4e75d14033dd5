package message

import (
	"slices"
	"testing"
)

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"X-User-Id", "x-user-id", true},
		{"X-User-Id", "X_USER_ID", true},
		{"X-User_Id", "x_user-id", true},
		{"", "", true},
		{"X-User-Id", "X-User-Ids", false},
		{"X-User-Id", "X-User.Id", false},
		{"X-User-Id", "X-UserId-", false},
		{"@", "`", false},
	} {
		if got := Alike(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %v", c.a, c.b, got)
		}
		if got := Likeness(c.a) == Likeness(c.b); got != c.want {
			t.Errorf("%q and %q stand for %q and %q", c.a, c.b, Likeness(c.a), Likeness(c.b))
		}
	}
}

func TestDeleteAlike(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, nil},
		{[]string{"A", "B"}, []string{"A", "B"}},
		{[]string{"X-User", "A", "x_user", "B", "X_USER"}, []string{"A", "B"}},
		{[]string{"A", "X-User", "X-Users"}, []string{"A", "X-Users"}},
	} {
		var f Fields
		for _, name := range c.names {
			f.Add(name, "1")
		}
		f.DeleteAlike("X-User")
		var got []string
		for _, field := range f {
			got = append(got, field.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %q there are %q, want %q", c.names, got, c.want)
		}
	}
}
