// Command issuer is the OpenID provider that tests log in at: zitadel/oidc's, with the
// storage and the pages of its example, and tokens that live for as long as tests want.
// It prints where it listens. SIGHUP has it sign with another key.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
)

var (
	issuer     = flag.String("issuer", "", "what it calls itself: a URL that ends with /")
	redirect   = flag.String("redirect", "", "the redirect_uri of its client")
	postLogout = flag.String("post-logout", "", "the post_logout_redirect_uri of its client")
	life       = flag.Duration("life", time.Minute, "how long tokens live")
)

func main() {
	flag.Parse()
	users := storage.NewUserStore(*issuer)
	clients := map[string]*storage.Client{"gateway": storage.WebClient("gateway", "secret-of-the-gateway", *redirect)}
	kept := &store{Storage: storage.NewStorageWithClients(users, clients)}
	kept.rotate()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		for range hangup {
			kept.rotate()
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	key := sha256.Sum256([]byte(strconv.FormatInt(time.Now().UnixNano(), 10)))
	router := exampleop.SetupServer(*issuer, kept, slog.New(slog.NewTextHandler(os.Stderr, nil)), false, op.WithCrypto(op.NewAESCrypto(key)))
	log.Fatal((&http.Server{Handler: router, ReadHeaderTimeout: 10 * time.Second}).Serve(listener))
}

// store is the example's storage, with keys that change and tokens that end.
type store struct {
	*storage.Storage

	mu   sync.Mutex
	keys []*key // the last one signs
}

func (s *store) rotate() {
	made, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		log.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, &key{made, fmt.Sprint("key-", len(s.keys)+1)})
	if len(s.keys) > 2 {
		s.keys = s.keys[1:]
	}
	fmt.Println("signs with", s.keys[len(s.keys)-1].id)
}

func (s *store) SigningKey(context.Context) (op.SigningKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1], nil
}

func (s *store) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *store) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var public []op.Key
	for _, k := range s.keys {
		public = append(public, publicKey{k})
	}
	return public, nil
}

func (s *store) CreateAccessToken(ctx context.Context, request op.TokenRequest) (string, time.Time, error) {
	id, _, err := s.Storage.CreateAccessToken(ctx, request)
	return id, time.Now().Add(*life), err
}

func (s *store) CreateAccessAndRefreshTokens(ctx context.Context, request op.TokenRequest, current string) (access, refresh string, expires time.Time, err error) {
	access, refresh, _, err = s.Storage.CreateAccessAndRefreshTokens(ctx, request, current)
	return access, refresh, time.Now().Add(*life), err
}

func (s *store) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{c}, nil
}

// client is the example's, with the life of its ID tokens and where it may be sent.
type client struct{ op.Client }

func (client) IDTokenLifetime() time.Duration   { return *life }
func (client) PostLogoutRedirectURIs() []string { return []string{*postLogout} }

// key is one that it signs with.
type key struct {
	private *rsa.PrivateKey
	id      string
}

func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k *key) Key() any                                    { return k.private }
func (k *key) ID() string                                  { return k.id }

type publicKey struct{ *key }

func (k publicKey) Key() any                           { return &k.private.PublicKey }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
