package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/pipeline"
	"sluice/internal/token"
)

// bed is an issuer of which the test says what it answers. Times are synctest's.
type bed struct {
	*Remote
	log bytes.Buffer

	mu       sync.Mutex
	keys     string // "": no answer
	takes    time.Duration
	lifetime time.Duration
	began    []time.Time
}

var errDown = errors.New("down")

func newBed(t *testing.T, keys string) *bed {
	t.Helper()
	b := &bed{keys: keys, lifetime: usual}
	b.Remote = newRemote("https://issuer.test/keys", b.answer, slog.New(slog.NewTextHandler(&b.log, nil)))
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Release()
		<-b.done
	})
	return b
}

func (b *bed) set(keys string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = keys
}

func (b *bed) answer(ctx context.Context) (*answer, error) {
	b.mu.Lock()
	b.began = append(b.began, time.Now())
	takes := b.takes
	b.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == "" {
		return nil, errDown
	}
	return &answer{documentOf(b.keys), b.lifetime}, nil
}

func (b *bed) fetches() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.began)
}

// documentOf has a secret for each letter.
func documentOf(letters string) *token.Document {
	var keys []string
	for _, letter := range letters {
		keys = append(keys, fmt.Sprintf(`{"kty":"oct","kid":"%c","k":%q}`, letter, strings.Repeat(string(letter), 64)))
	}
	document, err := token.ReadDocument([]byte(`{"keys":[`+strings.Join(keys, ",")+`]}`), true)
	if err != nil {
		panic(err)
	}
	return document
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "a")
		synctest.Wait()
		first := b.Keys()
		if first == nil || !first.Equal(documentOf("a").Set) {
			t.Fatal("there are no keys after the first fetch")
		}
		time.Sleep(usual + time.Second)
		synctest.Wait()
		if b.fetches() != 2 || b.Keys() != first {
			t.Errorf("%d fetches; the same keys are the same set: %v", b.fetches(), b.Keys() == first)
		}
		b.set("ab")
		time.Sleep(usual)
		synctest.Wait()
		if !b.Keys().Equal(documentOf("ab").Set) {
			t.Error("another key is not taken up")
		}
	})
}

// TestStatus counts fetches by what became of them, and tells when one was good.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "")
		want := pipeline.KeysStatus{URL: "https://issuer.test/keys"}
		holds := func() {
			t.Helper()
			if diff := cmp.Diff(want, b.Status()); diff != "" {
				t.Error(diff)
			}
		}
		synctest.Wait()
		want.Failed = 1
		holds()
		b.set("ab")
		time.Sleep(throttle)
		want.Keys, want.Fetched, want.Last = 2, 1, time.Now()
		synctest.Wait()
		holds()
		b.set("")
		time.Sleep(usual)
		synctest.Wait()
		want.Failed = 2
		holds()
	})
}

// TestOutage: the keys stay for as long as it lasts, it is told once, and so is its end.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "a")
		synctest.Wait()
		first := b.Keys()
		b.set("")
		time.Sleep(24 * time.Hour)
		if b.Keys() != first {
			t.Error("the keys are gone")
		}
		if n := b.fetches(); n < 24*60*2-100 || n > 24*60*2+100 {
			t.Errorf("%d tries in a day", n)
		}
		b.set("b")
		time.Sleep(slowest + time.Second)
		synctest.Wait()
		if !b.Keys().Equal(documentOf("b").Set) {
			t.Error("new keys are not taken up after an outage")
		}
		log := b.log.String()
		if strings.Count(log, "the last ones stay in use") != 1 || strings.Count(log, "fetched again") != 1 || strings.Count(log, "level=WARN") != 1 {
			t.Errorf("the log tells:\n%s", log)
		}
	})
}

// TestBackOff: tries are further and further apart, and one that is asked for comes soon.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		for i, seconds := range []int{1, 2, 4, 8, 16, 30, 30, 30, 30} {
			pause := time.Duration(seconds) * time.Second
			if got := b.began[i+1].Sub(b.began[i]); got != pause {
				t.Errorf("pause %d is %v, want %v", i, got, pause)
			}
		}
		if keys, err := b.Newer(t.Context(), nil); keys != nil || !errors.Is(err, ErrUnavailable) {
			t.Errorf("without keys: %v, %v", keys, err)
		}
		before := b.fetches()
		synctest.Wait()
		if b.fetches() != before+1 {
			t.Error("the issuer was not asked again at once")
		}
		if log := b.log.String(); strings.Count(log, "refused until they are") != 1 {
			t.Errorf("the log tells:\n%s", log)
		}
	})
}

// TestFirst: who comes before the first keys waits for them.
func TestFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{keys: "a", takes: 2 * time.Second, lifetime: usual}
		b.Remote = newRemote("", b.answer, slog.New(slog.DiscardHandler))
		got := make(chan *token.Set)
		for range 10 {
			go func() {
				keys, err := b.Newer(t.Context(), nil)
				if err != nil {
					t.Error(err)
				}
				got <- keys
			}()
		}
		synctest.Wait()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if keys := <-got; keys == nil || keys != b.Keys() {
				t.Error("somebody who waited has no keys")
			}
		}
		if b.fetches() != 1 {
			t.Errorf("%d fetches", b.fetches())
		}
		b.Release()
		<-b.done
	})
}

// TestUnknownKey: one fetch serves all who miss a key, and fetches are a second apart.
func TestUnknownKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "a")
		synctest.Wait()
		old := b.Keys()
		b.set("ab")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if keys, err := b.Newer(t.Context(), old); err != nil || !keys.Equal(documentOf("ab").Set) {
					t.Errorf("%v, %v", keys, err)
				}
			})
		}
		all.Wait()
		if b.fetches() != 2 {
			t.Errorf("%d fetches", b.fetches())
		}
		// A flood of keys that are not there.
		now, begin := b.Keys(), time.Now()
		for range 50 {
			if keys, err := b.Newer(t.Context(), now); err != nil || keys != now {
				t.Errorf("%v, %v", keys, err)
			}
		}
		if took := time.Since(begin); took < 49*time.Second || b.fetches() != 52 {
			t.Errorf("%d fetches in %v", b.fetches()-2, took)
		}
		for i := 1; i < len(b.began); i++ {
			if pause := b.began[i].Sub(b.began[i-1]); pause < throttle {
				t.Errorf("two fetches begin %v apart", pause)
			}
		}
		if keys, err := b.Newer(t.Context(), old); err != nil || keys != now {
			t.Error("who has older keys had to wait")
		}
	})
}

// TestMissedWhileFetching: a fetch that had begun before the key was missed may not have
// it yet; the next one has.
func TestMissedWhileFetching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "a")
		synctest.Wait()
		old := b.Keys()
		time.Sleep(2 * time.Second)
		b.mu.Lock()
		b.takes = 500 * time.Millisecond
		b.mu.Unlock()
		go func() { _, _ = b.Newer(t.Context(), old) }()
		time.Sleep(100 * time.Millisecond)
		go func() {
			time.Sleep(600 * time.Millisecond) // after the end of that fetch
			b.set("ab")
		}()
		if keys, err := b.Newer(t.Context(), old); err != nil || !keys.Equal(documentOf("ab").Set) {
			t.Errorf("%v, %v", keys, err)
		}
	})
}

func TestBoundsOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, "a")
		synctest.Wait()
		old := b.Keys()
		b.mu.Lock()
		b.takes = time.Hour
		b.mu.Unlock()
		begin := time.Now()
		var all sync.WaitGroup
		for range maxWaiters {
			all.Go(func() {
				if keys, err := b.Newer(t.Context(), old); keys != old || !errors.Is(err, ErrUnavailable) {
					t.Errorf("%v, %v", keys, err)
				}
			})
		}
		synctest.Wait()
		if _, err := b.Newer(t.Context(), old); !errors.Is(err, ErrCrowded) {
			t.Errorf("one too many: %v", err)
		}
		all.Wait()
		if took := time.Since(begin); took != MaxWait {
			t.Errorf("they waited %v", took)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(time.Second)
			cancel(gone)
		}()
		if _, err := b.Newer(ctx, old); !errors.Is(err, gone) {
			t.Errorf("a client that leaves: %v", err)
		}
		if b.waiting != 0 {
			t.Errorf("%d are thought to wait", b.waiting)
		}
		waits := make(chan error)
		go func() {
			_, err := b.Newer(t.Context(), old)
			waits <- err
		}()
		synctest.Wait()
		b.cancel()
		if err := <-waits; !errors.Is(err, ErrUnavailable) {
			t.Errorf("no more fetches will come: %v", err)
		}
	})
}
