package snapshot_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestListenerRenamed serves a request that the engine took under a listener's
// old name by the snapshot that has it under a new one.
func TestListenerRenamed(t *testing.T) {
	dir := gatewaytest.ShortDir(t)
	config := func(name, address string) string {
		return fmt.Sprintf(`
listeners: {%[1]s: {address: "unix:%[2]s"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: named, listeners: [%[1]s], match: {path: /named}, respond: {status: 204}}]
`, name, filepath.Join(dir, address))
	}
	e := newEngine(t)
	e.load(config("before", "socket"))
	renamed, moved := e.exchange("GET", "/named"), e.exchange("GET", "/named")
	e.load(config("after", "socket"))
	if err := e.run(renamed); err != nil || renamed.Listener.Name != "after" {
		t.Errorf("listener %s, %v", renamed.Listener.Name, err)
	}
	e.load(config("after", "other"))
	if err := e.run(moved); err == nil || moved.Listener.Name != "before" {
		t.Errorf("listener %s, %v; want what it had, and no route", moved.Listener.Name, err)
	}
	e.stop()
}
