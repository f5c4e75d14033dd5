package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// nobody is an endpoint that refuses connections.
const nobody = "http://127.0.0.1:1"

// failing is a gateway with an upstream for each thing that keeps attempts from an
// endpoint.
func failing(t *testing.T) (gw *gatewaytest.Gateway, config, echo string) {
	t.Helper()
	echo = gatewaytest.NewEcho(t, "echo")
	config = fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0", token: %s}
upstreams:
  whole: {endpoints: [%[2]q], circuit_breaker: {consecutive_failures: 2, open_for: 1h}}
  broken: {endpoints: [%[3]q], circuit_breaker: {consecutive_failures: 2, open_for: 1h}}
  each: {endpoints: [%[2]q, {url: %[3]q, version: v1}, {url: %[3]q, version: v2}], circuit_breaker: {scope: endpoint, consecutive_failures: 2, open_for: 1h}}
  ejecting: {endpoints: [%[2]q, %[3]q], outlier_detection: {consecutive_failures: 2, base_ejection: 1h}}
  checked: {endpoints: [%[2]q, %[3]q], health_check: {interval: 20ms, healthy_after: 1, unhealthy_after: 1}}
  panicking: {endpoints: [%[3]q], health_check: {interval: 20ms, unhealthy_after: 1}}
routes:
  - {match: {path_prefix: /whole}, upstream: whole}
  - {match: {path_prefix: /broken}, upstream: broken}
  - {match: {path_prefix: /each}, upstream: each}
  - {match: {path_prefix: /ejecting}, upstream: ejecting}
  - {match: {path_prefix: /checked}, upstream: checked}
  - {match: {path_prefix: /panicking}, upstream: panicking}
`, secret, echo, nobody)
	gw = gatewaytest.Start(t, config)
	for _, path := range []string{"/whole", "/broken", "/each", "/ejecting"} {
		for range 12 {
			asked(t, gw, path)
		}
	}
	return gw, config, echo
}

func TestMetricsOfWhatFails(t *testing.T) {
	gw, config, echo := failing(t)
	samples := func(samples ...string) {
		t.Helper()
		gatewaytest.WaitFor(t, "the metrics have "+strings.Join(samples, ", "), func() bool {
			_, text := get(t, gw, "/metrics")
			for _, sample := range samples {
				if !strings.Contains(text, "\ngateway_"+sample+"\n") {
					return false
				}
			}
			return true
		})
	}
	labels := func(upstream, endpoint string) string {
		return fmt.Sprintf("{endpoint=%q,upstream=%q}", endpoint, upstream)
	}
	moved := func(upstream, endpoint, to string) string {
		return fmt.Sprintf("breaker_transitions_total{endpoint=%q,to=%q,upstream=%q}", endpoint, to, upstream)
	}
	samples(
		"endpoint_healthy"+labels("whole", echo)+" 1", "endpoint_healthy"+labels("broken", nobody)+" 1",
		"endpoint_healthy"+labels("ejecting", echo)+" 1", "endpoint_healthy"+labels("ejecting", nobody)+" 0",
		"endpoint_healthy"+labels("checked", echo)+" 1", "endpoint_healthy"+labels("checked", nobody)+" 0",
		"endpoint_healthy"+labels("panicking", nobody)+" 0",
		"breaker_state"+labels("whole", "")+" 0", "breaker_state"+labels("broken", "")+" 1",
		"breaker_state"+labels("each", echo)+" 0", "breaker_state"+labels("each", nobody)+" 1",
		moved("whole", "", "open")+" 0", moved("broken", "", "open")+" 1", moved("broken", "", "half_open")+" 0", moved("broken", "", "closed")+" 0",
		moved("each", nobody, "open")+" 1", moved("each", echo, "open")+" 0",
		"ejections_total"+labels("ejecting", echo)+" 0", "ejections_total"+labels("ejecting", nobody)+" 1",
	)

	// What is gone has no state; what stays has the one it had.
	gw.Load(strings.NewReplacer(`, "`+nobody+`"], health`, `], health`, "  - {match: {path_prefix: /each}, upstream: each}\n", "").Replace(config))
	samples("breaker_state"+labels("broken", "")+" 1", "endpoint_healthy"+labels("ejecting", nobody)+" 0", "endpoint_healthy"+labels("checked", echo)+" 1")
	if _, text := get(t, gw, "/metrics"); strings.Contains(text, "gateway_endpoint_healthy"+labels("checked", nobody)) {
		t.Error("an endpoint that is gone has a state")
	}
}

func TestBreakersAreRead(t *testing.T) {
	gw, _, echo := failing(t)
	var list []object
	tell(t, gw, "/_gateway/breakers", &list)
	var seen []string
	for _, b := range list {
		seen = append(seen, fmt.Sprint(b["upstream"], " ", b["endpoint"], " ", b["state"], " ", b["reason"]))
		if opened := b["state"] == "open"; opened != (b["probe_at"] != nil) || opened != (b["since"] != nil) || opened && b["consecutive_failures"] != 2.0 {
			t.Errorf("the breaker is %v", b)
		}
	}
	want := fmt.Sprintf("whole <nil> closed <nil>, broken <nil> open 2 failures in a row, each %s closed <nil>, each %s open 2 failures in a row", echo, nobody)
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("the breakers are %s, not %s", got, want)
	}
}

func TestDashboardShowsWhatFails(t *testing.T) {
	gw, _, _ := failing(t)
	var body string
	wanted := []string{
		`<td class="bad">ejected until `, `<td class="bad">unhealthy: `, ` (panic: used nonetheless)</td>`, "panic: too few endpoints are fit", ">healthy</td>", "<td>available</td>", `<td class="bad">circuit breaker not closed</td>`,
		"<h2>Circuit breakers</h2>", `<td class="bad">open</td>`, `<td class="good">closed</td>`, "<td>2 failures in a row</td>",
	}
	gatewaytest.WaitFor(t, "the dashboard shows the checks", func() bool {
		_, body = get(t, gw, "/")
		return strings.Contains(body, wanted[1]) && strings.Contains(body, wanted[2]) && strings.Contains(body, wanted[4])
	})
	for _, text := range wanted {
		if !strings.Contains(body, text) {
			t.Errorf("the dashboard does not show %s:\n%s", text, body)
		}
	}
}

func TestExplainTellsHowItStands(t *testing.T) {
	gw, _, _ := failing(t)
	for path, want := range map[string]string{"/broken": "broken open", "/whole": "whole closed", "/ejecting": "ejecting"} {
		var got struct {
			Upstreams []struct{ Name string }
			Breakers  []struct{ State string }
		}
		_, body := get(t, gw, "/_gateway/explain?url="+path)
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, u := range got.Upstreams {
			told = append(told, u.Name)
		}
		for _, b := range got.Breakers {
			told = append(told, b.State)
		}
		if strings.Join(told, " ") != want {
			t.Errorf("%s: %s, in %s", path, told, body)
		}
	}
}
