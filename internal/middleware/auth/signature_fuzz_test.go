package auth

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"sluice/internal/message"
)

// FuzzSignature reads signatures of whatever fields, and holds what is signed to being
// told apart: a base says again all that it was made of, and nothing else does.
func FuzzSignature(f *testing.F) {
	for _, seed := range [][4]string{
		{`sig=("@method" "@path" "@query" "x");created=1618884473;keyid="shop"`, "sig=:AAAA:", "/a?b=c", "y"},
		{`a=("@target-uri" "content-digest");alg="hmac-sha256";nonce="\"\\", b=()`, "b=:AA==:, a=::", "/", "sha-256=:AAAA:"},
		{`sig=( "host"  "@authority" );expires=-1`, "sig=::", "http://a/b", "1, 2"},
		{`sig=("@method";sf)`, "sig=:A:", "*", ""},
		{`sig=("x";key="a;\"" "x";bs=?0);created=1;tag=a/b;y, b=("x");keyid="b";z=%"%22"`, "sig=:AAAA:;a=1.5, b=::", "/", "y"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, input, mac, target, value string) {
		if strings.ContainsAny(target+value, "\r\n") {
			return // no request has them
		}
		r := request(target, "Signature-Input: "+input, "Signature: "+mac, "X: "+value)
		for label, sig := range signaturesOf(r.Fields) {
			if label == "" || len(sig.components) > mostMembers {
				t.Fatalf("%q has %d components", label, len(sig.components))
			}
			for _, path := range pathsOf(r) {
				base, ok := sig.base(r, path)
				if !ok {
					continue
				}
				lines := strings.Split(base, "\n")
				if len(lines) != len(sig.components)+1 || lines[len(lines)-1] != `"@signature-params": `+sig.params {
					t.Fatalf("%d components make %q", len(sig.components), base)
				}
				for i, component := range sig.components {
					if !strings.HasPrefix(lines[i], quoted(component)+": ") {
						t.Fatalf("the line of %q is %q", component, lines[i])
					}
				}
			}
			if !sig.foreign { // of which nothing is signed here
				again(t, sig)
			}
		}
	})
}

// again reads what is signed of a signature once more: it has to come to the same.
func again(t *testing.T, sig *signature) {
	t.Helper()
	fields := message.Fields{{Name: "Signature-Input", Value: "x=" + sig.params}, {Name: "Signature", Value: "x=:" + base64.StdEncoding.EncodeToString(sig.mac) + ":"}}
	same := signaturesOf(fields)["x"]
	if same == nil || same.params != sig.params || same.key != sig.key || same.nonce != sig.nonce || same.created != sig.created ||
		same.expires != sig.expires || same.algorithm != sig.algorithm || !bytes.Equal(same.mac, sig.mac) {
		t.Fatalf("%+v is read again as %+v", sig, same)
	}
}
