package keyset

import (
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/lease"
)

const keyOfRFC = `{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`

func serve(t *testing.T, secure bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// authority is a server's certificate as PEM.
func authority(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestFetch(t *testing.T) {
	var asked *http.Request
	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Cache-Control", "max-age=1000")
		fmt.Fprint(w, keyOfRFC)
	})
	got, err := newClient(Settings{server.URL + "/keys", authority(server)}).fetch(t.Context())
	if err != nil || got.Set.Len() != 1 || got.lifetime != 900*time.Second {
		t.Fatalf("%+v, %v", got, err)
	}
	if asked.Method != http.MethodGet || asked.URL.Path != "/keys" || !strings.Contains(asked.Header.Get("Accept"), "application/jwk-set+json") {
		t.Errorf("it was asked %s %s, %v", asked.Method, asked.URL, asked.Header)
	}
	if _, err := newClient(Settings{URL: server.URL + "/keys"}).fetch(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody that is known: %v", err)
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	plain := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keyOfRFC) })
	server := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/status":
			http.Error(w, keyOfRFC, http.StatusInternalServerError)
		case "/created":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, keyOfRFC)
		case "/text":
			fmt.Fprint(w, "<html>")
		case "/large":
			fmt.Fprint(w, strings.Repeat(" ", largest), keyOfRFC)
		case "/head":
			w.Header().Set("X-Long", strings.Repeat("a", 2*largestHead))
			fmt.Fprint(w, keyOfRFC)
		case "/plain":
			http.Redirect(w, r, plain.URL, http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/keys", http.StatusPermanentRedirect)
		case "/cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, keyOfRFC)
		default:
			fmt.Fprint(w, keyOfRFC)
		}
	})
	for path, want := range map[string]string{
		"/status": "the status is 500", "/created": "the status is 201", "/text": "the body is no JWK set", "/large": "the body is larger than 1 MiB", "/head": "header",
		"/plain": "redirected from https to http", "/loop": "redirected too often", "/cut": "unexpected EOF", "/moved": "", "/keys": "",
	} {
		got, err := newClient(Settings{server.URL + path, authority(server)}).fetch(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || (got != nil) != (want == "") {
			t.Errorf("%s: %v, %v, want %s", path, got, err, want)
		}
	}
	if _, err := newClient(Settings{URL: plain.URL}).fetch(t.Context()); err != nil {
		t.Errorf("without TLS: %v", err)
	}
}

func TestLifetime(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": usual, "public": usual, "max-age=600": 9 * time.Minute, "public, max-age=1200": 18 * time.Minute, "max-age=\"600\"": 9 * time.Minute,
		"max-age=0": least, "max-age=5": least, "no-store": least, "no-cache": least, "Max-Age=x": least, "max-age=-1": least,
		"max-age=100000": most, "max-age=9223372036854775807": most, "max-age=9223372036854775808": least,
	} {
		if got := lifetime(http.Header{"Cache-Control": {value}}); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	if got := lifetime(http.Header{"Cache-Control": {"max-age=1200"}, "Age": {"600"}}); got != 9*time.Minute {
		t.Errorf("with an age: %v", got)
	}
}

// TestLease: the same settings are the same keys, which outlive a reload.
func TestLease(t *testing.T) {
	server := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keyOfRFC) })
	var registry lease.Registry
	first, second := registry.NewSet(), registry.NewSet()
	settings := Settings{URL: server.URL}
	remote := Acquire(first, settings, slog.New(slog.DiscardHandler))
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	keys, err := remote.Newer(t.Context(), nil)
	if err != nil || keys == nil {
		t.Fatal(keys, err)
	}
	if Acquire(second, settings, slog.New(slog.DiscardHandler)) != remote || Acquire(second, Settings{URL: server.URL + "/x"}, slog.New(slog.DiscardHandler)) == remote {
		t.Error("settings are mixed up")
	}
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	first.Release()
	if remote.Keys() != keys {
		t.Error("a reload has lost the keys")
	}
	second.Release()
	<-remote.done
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}
