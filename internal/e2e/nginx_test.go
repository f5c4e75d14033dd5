package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// mostOverIdle is what the gateway's memory may grow by while a large body
// passes.
const mostOverIdle = 64 << 20

// nginx is a real nginx that serves and takes files below files.
type nginx struct {
	url   string
	files string
}

// startNginx runs Debian's nginx until the test ends, as whoever runs the test.
// more is put into its server block.
func startNginx(t *testing.T, more string) *nginx {
	t.Helper()
	user := ""
	if os.Geteuid() == 0 {
		user = "user root root;" // else its workers cannot enter the folder
	}
	s := startService(t, "nginx", func(folder, address string) []string {
		config := fmt.Sprintf(`
%s
daemon off;
worker_processes 2;
pid nginx.pid;
error_log error.log;
events {}
http {
  access_log off;
  sendfile on;
  client_body_temp_path temp/body;
  proxy_temp_path temp/proxy;
  fastcgi_temp_path temp/fastcgi;
  uwsgi_temp_path temp/uwsgi;
  scgi_temp_path temp/scgi;
  client_max_body_size 0;
  server {
    listen %s;
    root files;
    dav_methods PUT DELETE;
    %s
  }
}
`, user, address, more)
		for _, name := range []string{"files", "temp"} {
			if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(folder, "nginx.conf"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-p", folder, "-c", "nginx.conf", "-e", filepath.Join(folder, "error.log")}
	})
	return &nginx{url: "http://" + s.address, files: filepath.Join(s.folder, "files")}
}

// content is a stream of pseudo-random blocks, each with its number.
type content struct {
	block [1 << 20]byte
	next  []byte
	count uint64
	left  int64
}

func newContent(seed byte, size int64) *content {
	c := &content{left: size}
	source := rand.NewChaCha8([32]byte{seed})
	_, _ = source.Read(c.block[:]) // it never fails
	return c
}

func (c *content) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	if len(c.next) == 0 {
		binary.BigEndian.PutUint64(c.block[c.count%1000*1000:], c.count)
		c.count++
		c.next = c.block[:]
	}
	n := copy(p, c.next[:min(int64(len(c.next)), c.left)])
	c.next = c.next[n:]
	c.left -= int64(n)
	return n, nil
}

// sum returns the SHA-256 of what a reader has, and how much that is.
func sum(t *testing.T, r io.Reader) (sha string, size int64) {
	t.Helper()
	sha, size, err := sumOf(r)
	if err != nil {
		t.Fatalf("after %d bytes: %v", size, err)
	}
	return sha, size
}

func sumOf(r io.Reader) (sha string, size int64, err error) {
	hash := sha256.New()
	size, err = io.CopyBuffer(hash, r, make([]byte, 256<<10))
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// largeBytes is how long a large body is.
func largeBytes() int64 {
	if *long {
		return 1 << 30
	}
	return 1 << 28
}

// TestLargeFiles passes large bodies through in each direction, with a real nginx
// behind.
func TestLargeFiles(t *testing.T) {
	large := largeBytes()
	server := startNginx(t, "")
	gateway := gatewaytest.StartProcess(t, built(t, sluiceBinary), fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
upstreams: {files: {endpoints: [%q]}}
routes: [{id: files, match: {path_prefix: /}, upstream: files}]
`, server.url))
	base := "http://" + gateway.Addr("web")
	transport := &http.Transport{WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}

	put := func(t *testing.T, path string, size int64, body io.Reader) {
		t.Helper()
		request, err := http.NewRequest(http.MethodPut, base+path, body)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = size
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusCreated {
			t.Fatalf("PUT %s: status %d: %s", path, response.StatusCode, text)
		}
	}
	get := func(t *testing.T, path string) (sha string, size int64) {
		t.Helper()
		response, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK || response.ContentLength < 0 {
			t.Fatalf("GET %s: status %d, Content-Length %d", path, response.StatusCode, response.ContentLength)
		}
		return sum(t, response.Body)
	}

	// The gateway is warm, then idle.
	put(t, "/small", 1<<20, newContent(1, 1<<20))
	get(t, "/small")
	idle := gateway.Memory("VmRSS")
	bounded := func(t *testing.T, began time.Time) {
		t.Helper()
		peak := gateway.Memory("VmHWM") // since the process began
		t.Logf("%d MiB in %v; the gateway had %d KiB when idle and at most %d KiB", large>>20, time.Since(began).Round(time.Millisecond), idle>>10, peak>>10)
		if over := peak - idle; over >= mostOverIdle {
			t.Errorf("the gateway took %d MiB more than when idle, %d are allowed", over>>20, mostOverIdle>>20)
		}
	}

	for i, test := range []struct {
		name string
		size int64 // that is told
	}{
		{"upload with Content-Length", large},
		{"upload in chunks", -1},
	} {
		path := fmt.Sprintf("/large%d", i)
		file := filepath.Join(server.files, path)
		var want string
		if !t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			hash := sha256.New()
			put(t, path, test.size, io.TeeReader(newContent(byte(i), large), hash))
			bounded(t, began)
			want = hex.EncodeToString(hash.Sum(nil))
			stored, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer stored.Close()
			if sha, size := sum(t, stored); sha != want || size != large {
				t.Errorf("nginx stored %d bytes with %s, want %d with %s", size, sha, large, want)
			}
		}) {
			return
		}
		if i == 0 { // the same file comes back
			t.Run("download", func(t *testing.T) {
				began := time.Now()
				sha, size := get(t, path)
				bounded(t, began)
				if sha != want || size != large {
					t.Errorf("%d bytes came with %s, want %d with %s", size, sha, large, want)
				}
			})
		}
		if err := os.Remove(file); err != nil { // the disk need not hold both
			t.Error(err)
		}
	}
}
