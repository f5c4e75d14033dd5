package token

import (
	"errors"
	"testing"
)

// issued is a token of joe's with claims.
func issued(t *testing.T, claims string) string {
	t.Helper()
	return sign(t, "HS256", keys().secret, `{"alg":"HS256"}`, `{"iss":"joe",`+claims+`}`)
}

func TestTimes(t *testing.T) {
	v := verifier(nil, key(t, "", "", keys().secret))
	for claims, want := range map[string]error{
		`"exp":1700000001`:                          nil,
		`"exp":1700000000`:                          nil, // within the leeway
		`"exp":1699999970.5`:                        nil,
		`"exp":1699999970`:                          ErrExpired, // on or after
		`"exp":1699999969.999`:                      ErrExpired,
		`"exp":0`:                                   ErrExpired,
		`"exp":-1`:                                  ErrExpired,
		`"exp":1.7000003e9`:                         nil,
		`"exp":1700000300.25`:                       nil,
		`"exp":253402300799`:                        nil,
		`"exp":9223372036854775807`:                 ErrTime,
		`"exp":9223372036854775808`:                 ErrTime,
		`"exp":1e400`:                               ErrTime,
		`"exp":-1e400`:                              ErrTime,
		`"exp":"1700000300"`:                        ErrTime,
		`"exp":null`:                                ErrTime,
		`"exp":true`:                                ErrTime,
		`"exp":[1700000300]`:                        ErrTime,
		`"a":1`:                                     ErrTime,
		`"EXP":1700000300`:                          ErrTime,
		`"exp":1700000300,"nbf":1700000030`:         nil,
		`"exp":1700000300,"nbf":1700000031`:         ErrEarly,
		`"exp":1700000300,"nbf":-1`:                 nil,
		`"exp":1700000300,"nbf":"1"`:                ErrTime,
		`"exp":1700000300,"nbf":null`:               ErrTime,
		`"exp":1700000300,"nbf":1e30`:               ErrTime,
		`"exp":1700000300,"iat":1700000030`:         nil,
		`"exp":1700000300,"iat":1700000031`:         ErrEarly,
		`"exp":1700000300,"iat":"now"`:              ErrTime,
		`"exp":1700000300,"iat":1,"nbf":1700000031`: ErrEarly,
	} {
		if err := v.check(issued(t, claims)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", claims, err, want)
		}
	}
}

func TestAudiences(t *testing.T) {
	v := verifier(nil, key(t, "", "", keys().secret))
	for claims, want := range map[string]error{
		`"aud":"api"`:         nil,
		`"aud":"other"`:       nil,
		`"aud":["x","api"]`:   nil,
		`"aud":["x","other"]`: nil,
		`"aud":["x"]`:         ErrAudience,
		`"aud":"x"`:           ErrAudience,
		`"aud":"API"`:         ErrAudience,
		`"aud":"api "`:        ErrAudience,
		`"aud":"api other"`:   ErrAudience,
		`"aud":[]`:            ErrAudience,
		`"aud":""`:            ErrAudience,
		`"aud":null`:          ErrAudience,
		`"aud":["api",null]`:  ErrAudience,
		`"aud":["api",7]`:     ErrAudience,
		`"aud":[["api"]]`:     ErrAudience,
		`"aud":{"api":"api"}`: ErrAudience,
		`"aud":true`:          ErrAudience,
		`"sub":"api"`:         ErrAudience,
		`"aud":"ap\u0069"`:    nil,
	} {
		v.Issuers[0].Audiences = []string{"api", "other"}
		text := issued(t, `"exp":1700000300,`+claims)
		if err := v.check(text); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", claims, err, want)
		}
	}
	v.Issuers[0].Audiences = nil
	for claims, want := range map[string]error{`"aud":"x"`: nil, `"a":1`: nil, `"aud":7`: ErrAudience, `"aud":null`: ErrAudience} {
		if err := v.check(issued(t, `"exp":1700000300,`+claims)); !errors.Is(err, want) {
			t.Errorf("%s where it does not matter: %v, want %v", claims, err, want)
		}
	}
}

func TestRequired(t *testing.T) {
	v := verifier(nil, key(t, "", "", keys().secret))
	for _, test := range []struct {
		required Required
		claims   string
		want     error
	}{
		{Required{Name: "a"}, `"a":1`, nil},
		{Required{Name: "a"}, `"a":""`, nil},
		{Required{Name: "a"}, `"a":false`, nil},
		{Required{Name: "a"}, `"a":null`, ErrClaim},
		{Required{Name: "a"}, `"b":1`, ErrClaim},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":"y"`, nil},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":["z","y"]`, nil},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":"z"`, ErrClaim},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":"x y"`, ErrClaim},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":[["x"]]`, ErrClaim},
		{Required{Name: "a", Values: []string{"x", "y"}}, `"a":{"x":"x"}`, ErrClaim},
		{Required{Name: "a", Values: []string{"true"}}, `"a":true`, nil},
		{Required{Name: "a", Values: []string{"true"}}, `"a":false`, ErrClaim},
		{Required{Name: "a", Values: []string{"7"}}, `"a":7`, nil},
		{Required{Name: "a", Values: []string{"7"}}, `"a":7.0`, ErrClaim},
		{Required{Name: "a", Values: []string{""}}, `"b":1`, ErrClaim},
		{Required{Name: "scope", Values: []string{"read"}}, `"scope":"write read"`, nil},
		{Required{Name: "scope", Values: []string{"read"}}, `"scope":"readonly"`, ErrClaim},
	} {
		v.Required = []Required{{Name: "exp"}, test.required}
		if err := v.check(issued(t, `"exp":1700000300,`+test.claims)); !errors.Is(err, test.want) {
			t.Errorf("%+v, %s: %v, want %v", test.required, test.claims, err, test.want)
		}
	}
}
