package auth

import (
	"fmt"
	"slices"
	"testing"

	"sluice/internal/message"
)

// TestForeignSignatures: what signatures for others have that is not known here is no
// fault of ours, and of ours it is one.
func TestForeignSignatures(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	for input, good := range map[string]bool{
		`("@query-param";name="a" "@query-param";name="b");keyid="other"`: true,
		`("@path" "x";sf "y";key="a";bs);keyid="other"`:                   true,
		`("@path");keyid="other";x;y=1.5;z=tok/en:*`:                      true,
		`("@path");keyid="other";x=?0;y=:AAAA:;z=@1;w=%"a%22b"`:           true,
		`("@path" "@path");keyid="other"`:                                 false,
		`("@path");keyid="other";x=`:                                      false,
		`("@path");keyid="other";x=%"a`:                                   false,
		`("@path";);keyid="other"`:                                        false,
		`("@path";a="b);keyid="other"`:                                    false,
		`("@query-param";name="a");keyid="shop"`:                          false, // there may be one of a key that is known
		`("@path";req);keyid="app-1"`:                                     false,
	} {
		ours := signing{}.sign(request("/a"))
		for _, first := range []bool{true, false} {
			r := request("/a")
			other := message.Fields{{Name: "Signature-Input", Value: "other=" + input}, {Name: "Signature", Value: "other=:AAAA:;a=b;c"}}
			r.Fields = slices.Concat(ours.Fields, other)
			if first {
				r.Fields = slices.Concat(other, ours.Fields)
			}
			if p, err := b.at(r, signedAt); (err == nil) != good || good && p.Name != "shop" {
				t.Errorf("%s, first: %v: %v", input, first, err)
			}
		}
	}
}

// TestFieldsAlikeToSignedOnes: who adds a field to a signed request cannot add one that
// some endpoints take for a signed one.
func TestFieldsAlikeToSignedOnes(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ""))
	r := signing{components: []string{"@method", "@path", "x-pay-to", "x_by"}}.sign(request("/a", "X-Pay-To: ann", "X_By: ann"))
	for _, name := range []string{"X_Pay_To", "x-pay_to", "X-By", "X-Pay", "X_Other"} {
		r.Fields.Add(name, "bob")
	}
	if _, err := b.at(r, signedAt); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Fields {
		got = append(got, f.Name+": "+f.Value)
	}
	want := []string{"X-Pay-To: ann", "X_By: ann", "X-Pay: bob", "X_Other: bob"}
	got = slices.DeleteFunc(got, func(line string) bool { return line[0] == 'S' })
	if !slices.Equal(got, want) {
		t.Errorf("the destination gets %q, want %q", got, want)
	}
}
