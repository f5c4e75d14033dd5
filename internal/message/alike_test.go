package message

import "testing"

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
	}
}
