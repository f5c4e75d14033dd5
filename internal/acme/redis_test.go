package acme

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/model"
	"sluice/internal/waittest"
)

// redisServer is a real Redis on a free port.
type redisServer struct {
	t       *testing.T
	port    int
	folder  string
	command *exec.Cmd
	ended   chan struct{}
}

func newRedis(t *testing.T) *redisServer {
	t.Helper()
	r := &redisServer{t: t, port: freePort(t), folder: t.TempDir()}
	t.Cleanup(r.stop)
	return r
}

func (r *redisServer) start() {
	r.t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		r.t.Fatalf("%v; make test installs it", err)
	}
	r.command = exec.Command(program, "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.folder, "--daemonize", "no")
	if err := r.command.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func() {
		_ = r.command.Wait()
		close(r.ended)
	}()
	client := r.client()
	waittest.Until(r.t, "Redis answers", func() bool {
		select {
		case <-r.ended:
			r.t.Fatalf("Redis ended")
		default:
		}
		return client.Ping(r.t.Context()).Err() == nil
	})
}

func (r *redisServer) stop() {
	if r.command != nil {
		_ = r.command.Process.Kill()
		<-r.ended
		r.command = nil
	}
}

func (r *redisServer) client() *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)), ContextTimeoutEnabled: true,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: 2 * time.Second, DisableIdentity: true,
	})
	r.t.Cleanup(func() { client.Close() })
	return client
}

func (r *redisServer) storage(life time.Duration) *redisStorage {
	log, _ := newLog(r.t)
	return newRedisStorage(r.client(), life, log)
}

func TestTwoInstancesOrderOnce(t *testing.T) {
	database := newRedis(t)
	database.start()
	// The directory asks at the one site; the managers are the other's as well.
	asked, other := newSite(t), newSite(t)
	d := newDirectory(t, asked, 24*time.Hour)
	d.start()
	settings := d.settings("", domain, "www.example.com")
	settings.Store = "main"
	kept := make(chan (<-chan struct{}), 1)
	first, endFirst := asked.serve(t, settings, Options{HTTP01: true, Redis: database.client(), Keep: func(done <-chan struct{}) { kept <- done }}, quick())
	if until := <-kept; until != first.Done() {
		t.Error("the store is kept until something else")
	}
	_, endSecond := other.serve(t, settings, Options{HTTP01: true, Redis: database.client()}, quick())
	roots := d.issuedBy()
	for _, name := range first.Names() {
		one, two := obtained(t, asked, name, roots), obtained(t, other, name, roots)
		if one.SerialNumber.Cmp(two.SerialNumber) != 0 {
			t.Errorf("%s: two certificates", name)
		}
	}
	if issued := d.issued(); issued != 2 {
		t.Errorf("%d certificates were issued for two names", issued)
	}
	// They renew once, too: both find that the directory wants it now.
	before := obtained(t, asked, domain, roots)
	endFirst()
	endSecond()
	n := first.byName[domain]
	advice, resource, err := n.storedAdvice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	advice.SelectedTime = time.Now().Add(-time.Hour)
	if err := n.storeAdvice(t.Context(), resource, advice); err != nil {
		t.Fatal(err)
	}
	_, endFirst = asked.serve(t, settings, Options{HTTP01: true, Redis: database.client()}, quick())
	second, _ := other.serve(t, settings, Options{HTTP01: true, Redis: database.client()}, quick())
	for _, s := range []*site{asked, other} {
		waittest.Until(t, "both show another one", func() bool {
			now, err := s.handshake(domain, roots)
			return err == nil && now.SerialNumber.Cmp(before.SerialNumber) != 0
		})
	}
	if issued := d.issued(); issued != 3 {
		t.Errorf("%d certificates were issued for two names of which one was renewed", issued)
	}
	// With the first one gone the second goes on.
	endFirst()
	asked.manager.Store(second)
	obtained(t, asked, domain, roots)
}

// The directory asks whichever instance the load balancer picks.
func TestChallengeOfAnotherInstance(t *testing.T) {
	for name, http01 := range map[string]bool{"HTTP-01": true, "TLS-ALPN-01": false} {
		t.Run(name, func(t *testing.T) {
			database := newRedis(t)
			database.start()
			s := newSite(t)
			d := newDirectory(t, s, time.Hour)
			if http01 {
				port := s.tlsPort
				s.tlsPort = freePort(t)
				d = newDirectory(t, s, time.Hour)
				s.tlsPort = port
			}
			d.start()
			settings := d.settings("", domain)
			settings.Store = "main"
			orders, _ := s.serve(t, settings, Options{HTTP01: http01, Redis: blocked(t, database, s, settings, http01)}, quick())
			waittest.Until(t, "a certificate is there", func() bool { return !orders.Status()[0].NotAfter.IsZero() })
			if s.byHTTP.Load()+s.byTLS.Load() == 0 {
				t.Error("nobody was asked")
			}
		})
	}
}

// blocked puts an instance that orders nothing at the site, as soon as the one
// that does is started, and returns a client for that one.
func blocked(t *testing.T, database *redisServer, s *site, settings model.ACME, http01 bool) *redis.Client {
	t.Helper()
	answers := build(settings, Options{Log: s.log, HTTP01: http01, Redis: database.client()}, quick())
	answers.pending.open(database.storage(time.Second), newIssuer(answers, nil, s.log).IssuerKey())
	client := database.client()
	client.AddHook(onFirst(func() { s.manager.Store(answers) }))
	return client
}

// onFirst calls do with the first command.
type firstHook struct{ do func() }

func onFirst(do func()) firstHook { return firstHook{sync.OnceFunc(do)} }

func (h firstHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h firstHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		h.do()
		return next(ctx, command)
	}
}
func (h firstHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A Redis that is down holds neither the start nor what is shown already.
func TestRedisThatIsDown(t *testing.T) {
	database := newRedis(t)
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	d.start()
	settings := d.settings("", domain)
	settings.Store = "main"
	m, _ := s.serve(t, settings, Options{Redis: database.client()}, quick())
	waittest.Until(t, "the status tells of it", func() bool {
		status := m.Status()[0]
		return strings.Contains(status.LastError, "redis: load") && strings.Contains(status.LastError, "connection refused")
	})
	if d.issued() != 0 {
		t.Error("an order without a storage for its certificate")
	}
	database.start()
	got := obtained(t, s, domain, d.issuedBy())
	database.stop()
	if now := obtainedAtOnce(t, s); now.SerialNumber.Cmp(got.SerialNumber) != 0 {
		t.Error("another certificate")
	}
	if _, ok := m.HTTPChallenge(domain, ChallengePath+"token"); ok {
		t.Error("a challenge without a storage")
	}
}

// A Redis that takes connections and says nothing delays the start by as much
// as it may, and no more.
func TestRedisThatIsSilent(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	s := newSite(t)
	p := quick()
	p.firstLoad = 100 * time.Millisecond
	begin := time.Now()
	settings := model.ACME{Domains: []string{domain}, Directory: "https://127.0.0.1:1/dir", Store: "main"}
	s.serve(t, settings, Options{Redis: client}, p)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("the start took %v", took)
	}
	if s.journal.Count("the storage does not answer") != 1 {
		t.Error("nobody tells that the storage does not answer")
	}
}

// holderVariable makes the test binary a process that holds a lock in a Redis
// until it is killed: its value is the port and the lock's life.
const holderVariable = "SLUICE_ACME_HOLDER"

func holdLock() {
	var port int
	var life time.Duration
	if _, err := fmt.Sscanf(os.Getenv(holderVariable), "%d %d", &port, &life); err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	if err := newRedisStorage(client, life, nil).Lock(context.Background(), "name"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin) // for ever
}

func TestLockOfAKilledInstance(t *testing.T) {
	database := newRedis(t)
	database.start()
	const life = 2 * time.Second
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", holderVariable, database.port, life))
	input, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err := io.ReadFull(output, said); err != nil || string(said) != "held" {
		_ = holder.Process.Kill()
		_ = holder.Wait()
		t.Fatalf("the other process says %q, %v", said, err)
	}
	storage := database.storage(life)
	// It is renewed for longer than its life.
	for deadline := time.Now().Add(2 * life); time.Now().Before(deadline); {
		if ok, err := storage.TryLock(t.Context(), "name"); ok || err != nil {
			t.Fatalf("a lock that is held was taken: %v, %v", ok, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = holder.Process.Kill()
	_ = holder.Wait()
	begin := time.Now()
	if err := storage.Lock(t.Context(), "name"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > life+10*time.Second {
		t.Errorf("it took %v until the lock was free", took)
	}
	if err := storage.Unlock(t.Context(), "name"); err != nil {
		t.Error(err)
	}
}

// Nobody touches a lock that is not its own any more.
func TestLostLock(t *testing.T) {
	database := newRedis(t)
	database.start()
	log, journal := newLog(t)
	storage := newRedisStorage(database.client(), 300*time.Millisecond, log)
	if err := storage.Lock(t.Context(), "name"); err != nil {
		t.Fatal(err)
	}
	if err := database.client().Set(t.Context(), redisLock+"name", "another", 0).Err(); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the loss is told", func() bool { return journal.Count("a lock was lost") == 1 })
	if err := storage.Unlock(t.Context(), "name"); !errors.Is(err, errLost) {
		t.Errorf("got %v", err)
	}
	if got := database.client().Get(t.Context(), redisLock+"name").Val(); got != "another" {
		t.Errorf("the other one's lock is %q", got)
	}
}

func TestRedisErrors(t *testing.T) {
	database := newRedis(t) // which does not run
	storage := database.storage(time.Second)
	ctx := t.Context()
	_, loadErr := storage.Load(ctx, "a")
	_, listErr := storage.List(ctx, "a", true)
	_, statErr := storage.Stat(ctx, "a")
	_, lockErr := storage.TryLock(ctx, "a")
	for what, err := range map[string]error{
		"store": storage.Store(ctx, "a", nil), "load": loadErr, "delete": storage.Delete(ctx, "a"),
		"list": listErr, "stat": statErr, "lock": lockErr,
	} {
		if err == nil || errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "redis: "+what+" a: ") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if storage.Exists(ctx, "a") {
		t.Error("something exists")
	}

	// A lock that cannot be renewed or given back.
	database.start()
	log, journal := newLog(t)
	storage = newRedisStorage(database.client(), 300*time.Millisecond, log)
	if err := storage.Lock(ctx, "name"); err != nil {
		t.Fatal(err)
	}
	database.stop()
	waittest.Until(t, "the failure is told", func() bool { return journal.Count("a lock was not renewed") > 0 })
	if err := storage.Unlock(ctx, "name"); err == nil || !strings.HasPrefix(err.Error(), "redis: unlock name: ") {
		t.Errorf("got %v", err)
	}
}
