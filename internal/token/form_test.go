package token

import (
	"errors"
	"strings"
	"testing"
)

// TestForm has tokens that are signed well and are wrong in their form.
func TestForm(t *testing.T) {
	secret := keys().secret
	v := verifier(nil, key(t, "", "", secret))
	good := sign(t, "HS256", secret, `{"alg":"HS256"}`, claims)
	if err := v.check(good); err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(good, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	header := func(text string) string { return sign(t, "HS256", secret, text, claims) }
	body := func(text string) string { return sign(t, "HS256", secret, `{"alg":"HS256"}`, text) }
	raw := func(head, payload string) string { return signRaw(t, "HS256", secret, head+"."+payload) }
	deep := func(n int) string {
		return `{"iss":"joe","exp":1700000300,"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrMalformed},
		{"one part", "abc", ErrMalformed},
		{"two parts", head + "." + payload, ErrMalformed},
		{"two parts and a dot", head + "." + payload + ".", ErrMalformed},
		{"four parts", good + ".x", ErrMalformed},
		{"a dot behind", good + ".", ErrMalformed},
		{"a dot before", "." + good, ErrMalformed},
		{"five parts", "a.b.c.d.e", ErrMalformed},
		{"no header", raw("", payload), ErrMalformed},
		{"no payload", raw(head, ""), ErrMalformed},
		{"dots alone", "..", ErrMalformed},
		{"padding", good + "=", ErrMalformed},
		{"padding within", raw(head+"=", payload), ErrMalformed},
		{"a space behind", good + " ", ErrMalformed},
		{"a space before", " " + good, ErrMalformed},
		{"a newline behind", good + "\n", ErrMalformed},
		{"a newline in the header", raw(head[:4]+"\n"+head[4:], payload), ErrMalformed},
		{"a newline in the payload", raw(head, payload[:4]+"\r\n"+payload[4:]), ErrMalformed},
		{"a newline in the signature", head + "." + payload + "." + signature[:4] + "\n" + signature[4:], ErrMalformed},
		{"base64 of the other alphabet", raw(encode(`{"alg":"HS256","a":"????"}`)+"+/", payload), ErrMalformed},
		{"a NUL", raw(head, payload) + "\x00", ErrMalformed},
		{"bits left over in the signature", head + "." + payload + "." + strings.TrimSuffix(signature, signature[42:]) + string("BFJNRVZdhlptx159"[strings.IndexByte("AEIMQUYcgkosw048", signature[42])]), ErrMalformed},
		{"too large", body(`{"iss":"joe","exp":1700000300,"a":"` + strings.Repeat("x", 20000) + `"}`), ErrTooLarge},
		{"a header that is no JSON", header(`alg=HS256`), ErrMalformed},
		{"a header that is a list", header(`["HS256"]`), ErrMalformed},
		{"a header with more behind", header(`{"alg":"HS256"}x`), ErrMalformed},
		{"two headers", header(`{"alg":"HS256"}{}`), ErrMalformed},
		{"a header without alg", header(`{"typ":"JWT"}`), ErrMalformed},
		{"alg in another case", header(`{"ALG":"HS256"}`), ErrMalformed},
		{"alg twice", header(`{"alg":"none","alg":"HS256"}`), ErrMalformed},
		{"alg twice, once escaped", header(`{"alg":"HS256","al\u0067":"none"}`), ErrMalformed},
		{"alg that is a list", header(`{"alg":["HS256"]}`), ErrMalformed},
		{"alg that is null", header(`{"alg":null}`), ErrMalformed},
		{"kid that is a number", header(`{"alg":"HS256","kid":1}`), ErrMalformed},
		{"kid that is null", header(`{"alg":"HS256","kid":null}`), ErrMalformed},
		{"an unknown algorithm", header(`{"alg":"HS1"}`), ErrAlgorithm},
		{"none", header(`{"alg":"none"}`), ErrAlgorithm},
		{"None", header(`{"alg":"None"}`), ErrAlgorithm},
		{"NONE", header(`{"alg":"NONE"}`), ErrAlgorithm},
		{"nOnE", header(`{"alg":"nOnE"}`), ErrAlgorithm},
		{"an empty alg", header(`{"alg":""}`), ErrAlgorithm},
		{"alg in lower case", header(`{"alg":"hs256"}`), ErrAlgorithm},
		{"alg with a space", header(`{"alg":"HS256 "}`), ErrAlgorithm},
		{"an algorithm of JWE", header(`{"alg":"dir"}`), ErrAlgorithm},
		{"crit", header(`{"alg":"HS256","crit":["x"],"x":1}`), ErrCritical},
		{"crit that is empty", header(`{"alg":"HS256","crit":[]}`), ErrCritical},
		{"crit of what is known", header(`{"alg":"HS256","crit":["exp"],"exp":1}`), ErrCritical},
		{"crit that is null", header(`{"alg":"HS256","crit":null}`), ErrCritical},
		{"b64", header(`{"alg":"HS256","b64":false}`), ErrCritical},
		{"b64 and crit", header(`{"alg":"HS256","b64":false,"crit":["b64"]}`), ErrCritical},
		{"zip", header(`{"alg":"HS256","zip":"DEF"}`), ErrCritical},
		{"claims that are a list", body(`[1,2]`), ErrMalformed},
		{"claims that are a text", body(`"x"`), ErrMalformed},
		{"claims that are null", body(`null`), ErrMalformed},
		{"claims with a comma too many", body(`{"iss":"joe","exp":1700000300,}`), ErrMalformed},
		{"claims with a comment", body(`{"iss":"joe","exp":1700000300/**/}`), ErrMalformed},
		{"claims with a byte order mark", body("\ufeff" + claims), ErrMalformed},
		{"claims that end too early", body(`{"iss":"joe","exp":1700000300`), ErrMalformed},
		{"claims with more behind", body(claims + claims), ErrMalformed},
		{"claims with NaN", body(`{"iss":"joe","exp":NaN}`), ErrMalformed},
		{"claims with hexadecimal", body(`{"iss":"joe","exp":0x6553f000}`), ErrMalformed},
		{"claims with a zero before", body(`{"iss":"joe","exp":01700000300}`), ErrMalformed},
		{"claims that are not UTF-8", body("{\"iss\":\"joe\",\"exp\":1700000300,\"a\":\"\xff\"}"), ErrMalformed},
		{"half a character", body(`{"iss":"joe","exp":1700000300,"sub":"a\ud800"}`), ErrMalformed},
		{"the other half", body(`{"iss":"joe","exp":1700000300,"sub":"\uDC00a"}`), ErrMalformed},
		{"half a character and another", body(`{"iss":"joe","exp":1700000300,"sub":"\ud83d\u0061"}`), ErrMalformed},
		{"half a character at the end", body(`{"iss":"joe","exp":1700000300,"sub":"\ud83d`), ErrMalformed},
		{"halves in the wrong order", body(`{"iss":"joe","exp":1700000300,"\ude00\ud83d":1}`), ErrMalformed},
		{"half a character in the header", header(`{"alg":"HS256","kid":"\ud800"}`), ErrMalformed},
		{"both halves", body(`{"iss":"joe","exp":1700000300,"sub":"\ud83d\ude00"}`), nil},
		{"a backslash before what looks like half a character", body(`{"iss":"joe","exp":1700000300,"sub":"\\ud800\u0041\n"}`), nil},
		{"a character that stands for none", body(`{"iss":"joe","exp":1700000300,"sub":"\ufffd"}`), nil},
		{"exp twice", body(`{"iss":"joe","exp":1,"exp":1700000300}`), ErrMalformed},
		{"iss twice", body(`{"iss":"joe","exp":1700000300,"iss":"joe"}`), ErrMalformed},
		{"a member of a member twice", body(`{"iss":"joe","exp":1700000300,"a":{"b":1,"b":2}}`), ErrMalformed},
		{"a member of an item twice", body(`{"iss":"joe","exp":1700000300,"a":[{"b":1,"b":2}]}`), ErrMalformed},
		{"too deep", body(deep(deepest + 1)), ErrMalformed},
		{"far too deep", body(deep(5000)), ErrMalformed},
		{"deep", body(deep(deepest - 1)), nil},
		{"spaces in JSON", body(" {\n\"iss\" : \"joe\" ,\t\"exp\": 1700000300 } "), nil},
		{"names that differ by case", body(`{"iss":"joe","exp":1700000300,"ISS":"x"}`), nil},
		{"jku", header(`{"alg":"HS256","jku":"http://127.0.0.1:1/x"}`), nil},
		{"x5u", header(`{"alg":"HS256","x5u":"http://127.0.0.1:1/x"}`), nil},
		{"another typ", header(`{"alg":"HS256","typ":"at+jwt"}`), nil},
	} {
		err := v.check(test.text)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestEmbeddedKeys: what a token says of keys by itself is not believed.
func TestEmbeddedKeys(t *testing.T) {
	k := keys()
	v := verifier(nil, key(t, "one", "", &k.rsa.PublicKey))
	for _, header := range []string{
		`"jwk":{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}`,
		`"jwk":{"kty":"RSA","n":"` + encode(string(k.other.N.Bytes())) + `","e":"AQAB"}`,
		`"jwk":{"kty":"RSA","n":"` + encode(string(k.other.N.Bytes())) + `","e":"AQAB"},"kid":"one"`,
		`"jku":"https://127.0.0.1:1/jwks"`, `"x5u":"https://127.0.0.1:1/x5u"`, `"x5c":["MIIB"]`, `"kid":"../../dev/null"`, `"kid":"' OR 1=1"`,
	} {
		if err := v.check(sign(t, "RS256", k.other, `{"alg":"RS256",`+header+`}`, claims)); err == nil {
			t.Errorf("%s passes", header)
		}
	}
}

// TestHeadersThatSayOfKeys: what a good token says of keys is not looked at, and makes it
// no worse.
func TestHeadersThatSayOfKeys(t *testing.T) {
	k := keys()
	v := verifier(nil, key(t, "", "", &k.rsa.PublicKey))
	for _, header := range []string{
		`"x5c":["MIIB"]`, `"x5c":["%"]`, `"x5c":7`, `"jwk":{"kty":"EC","crv":"SM2"}`, `"jwk":{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}`, `"jwk":1`,
		`"nonce":1`, `"jku":1`, `"x5u":":"`, `"x5t":"!","x5t#S256":0`,
	} {
		if err := v.check(sign(t, "RS256", k.rsa, `{"alg":"RS256",`+header+`}`, claims)); err != nil {
			t.Errorf("%s: %v", header, err)
		}
	}
}
