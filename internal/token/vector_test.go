package token

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The tokens of the RFCs, all of which end at 1300819380 where they have claims.
const (
	joe = ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."

	hs256 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" + joe + "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	rs256 = "eyJhbGciOiJSUzI1NiJ9" + joe + "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
	es256 = "eyJhbGciOiJFUzI1NiJ9" + joe + "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	es512 = "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"
	eddsa = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"
	none  = "eyJhbGciOiJub25lIn0" + joe
	// Made with OpenSSL.
	viaSM2 = "eyJhbGciOiJTTTIifQ.eyJpc3MiOiJqb2UiLCJleHAiOjEzMDA4MTkzODB9.dBRZOhU7RvFh56YPm0bXK92k-dmA-QEan6-wMRdOEB8dvsCFBTruI6b-SRcT6ZhOy5O52I71IAFtjnLtfyNEww"
)

// rfcKeys are the public halves, and the secret.
const rfcKeys = `{"keys": [
	{"kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"},
	{"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"},
	{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
	{"kty": "EC", "crv": "P-521", "x": "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk", "y": "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2"},
	{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
	{"kty": "EC", "crv": "SM2", "x": "hyF2TSxZMu_V_SNKu4M5knGivzcde9f0r-4P6_OFrMk", "y": "_h0L_pX_SD7_fFQCJ1gd64SEfgeJA7F9Z1dsoCiiA1U"}
]}`

func rfcSet(t *testing.T) *Set {
	t.Helper()
	document, err := ReadDocument([]byte(rfcKeys), true)
	if err != nil || document.Unused != nil {
		t.Fatal(err, document)
	}
	return document.Set
}

// TestTokensOfTheRFCs: RFC 7515 A.1 to A.3 (A.1 is also RFC 7519 3.1), and SM2.
func TestTokensOfTheRFCs(t *testing.T) {
	set := rfcSet(t)
	v := verifier(nil)
	v.Issuers[0].Keys = func() *Set { return set }
	end := time.Unix(1300819380, 0)
	for name, text := range map[string]string{"A.1": hs256, "A.2": rs256, "A.3": es256, "SM2": viaSM2} {
		verified, _, _, err := v.Verify(text, end.Add(-time.Second))
		if err != nil || verified.Issuer != "joe" || !verified.Expires().Equal(end) {
			t.Errorf("%s: %+v, %v", name, verified, err)
		}
		if _, _, _, err := v.Verify(text, end.Add(v.Leeway)); !errors.Is(err, ErrExpired) {
			t.Errorf("%s, later: %v", name, err)
		}
		// Each of the last characters has bits that count.
		at := len(text) - 3
		changed := text[:at] + string(text[at]^1) + text[at+1:]
		if _, _, _, err := v.Verify(changed, end.Add(-time.Second)); err == nil {
			t.Errorf("%s passes with another signature", name)
		}
	}
	if _, _, _, err := v.Verify(none, end.Add(-time.Second)); err == nil { // RFC 7515 A.5, RFC 7519 6.1
		t.Error("a token without a signature passes")
	}
}

// TestSignaturesOfTheRFCs: RFC 7515 A.4 and RFC 8037 A.4, whose payloads are no claims.
func TestSignaturesOfTheRFCs(t *testing.T) {
	set := rfcSet(t)
	for name, text := range map[string]string{"ES512": es512, "EdDSA": eddsa} {
		algorithm, _ := algorithmNamed(name)
		dot := strings.LastIndexByte(text, '.')
		signature, err := decodePart(text[dot+1:])
		if err != nil {
			t.Fatal(err)
		}
		signed := &parsed{header: header{algorithm: name}, input: text[:dot], signature: signature}
		if _, err := set.verify(signed, algorithm); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		signed.signature[len(signature)-1] ^= 1
		if _, err := set.verify(signed, algorithm); err == nil {
			t.Errorf("%s passes with another signature", name)
		}
		if err := (&Verifier{MaxBytes: 1 << 10}).check(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: a payload that is no claims: %v", name, err)
		}
	}
}
