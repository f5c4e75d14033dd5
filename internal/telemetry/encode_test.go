package telemetry

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/internal/model"
)

// full is a record in which every field has a value of its own.
func full() *Record {
	return &Record{
		Time:      time.Date(2026, 3, 4, 5, 6, 7, 89_000_000, time.FixedZone("", 2*3600)),
		RequestID: "id-1", TraceID: "0af7651916cd43dd8448eb211c80319c", ClientIP: netip.MustParseAddr("2001:db8::1"),
		Method: "GET", Host: "api.example.com", Path: "/a%20b", Query: "?x=1", Protocol: "HTTP/1.1", Status: 502, Error: "upstream_reset",
		BytesIn: 12, BytesOut: 34567, Duration: 1500*time.Millisecond + 250*time.Microsecond, UpstreamDuration: 1499 * time.Millisecond,
		Route: "users", Upstream: "u", Endpoint: "10.0.0.1:80", Version: "v2", Attempts: 2,
		UserAgent: "curl/8", Referer: "https://x.test/", Consumer: "ann",
	}
}

func TestJSONLine(t *testing.T) {
	got := string(appendJSON(nil, full(), jsonFields(nil)))
	want := `{"time":"2026-03-04T03:06:07.089Z","request_id":"id-1","trace_id":"0af7651916cd43dd8448eb211c80319c","client_ip":"2001:db8::1",` +
		`"method":"GET","host":"api.example.com","path":"/a%20b","protocol":"HTTP/1.1","status":502,"error":"upstream_reset",` +
		`"bytes_in":12,"bytes_out":34567,"duration_ms":1500.250,"upstream_ms":1499,"gateway_ms":1.250,` +
		`"route":"users","upstream":"u","endpoint":"10.0.0.1:80","version":"v2","attempts":2,"user_agent":"curl/8","consumer":"ann"}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONLineOfAnEmptyRecord(t *testing.T) {
	line := appendJSON(nil, &Record{}, jsonFields(nil))
	var object map[string]any
	if err := json.Unmarshal(line, &object); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if len(object) != len(model.AccessLogFields) {
		t.Errorf("%d fields: %s", len(object), line)
	}
	if object["client_ip"] != "" || object["attempts"] != 0.0 {
		t.Errorf("%s", line)
	}
}

func TestJSONFieldsInTheirOwnOrder(t *testing.T) {
	got := string(appendJSON(nil, full(), jsonFields([]string{"consumer", "status", "time", "status"})))
	if want := `{"time":"2026-03-04T03:06:07.089Z","status":502,"consumer":"ann"}` + "\n"; got != want {
		t.Errorf("got %s", got)
	}
}

// The indices and the names are two lists; each name must have its own value.
func TestJSONKnowsEveryField(t *testing.T) {
	if fieldCount != len(model.AccessLogFields) {
		t.Fatalf("%d indices for %d names", fieldCount, len(model.AccessLogFields))
	}
	var object map[string]any
	if err := json.Unmarshal(appendJSON(nil, full(), jsonFields(nil)), &object); err != nil {
		t.Fatal(err)
	}
	seen := map[any]string{}
	for _, name := range model.AccessLogFields {
		value, ok := object[name]
		if !ok {
			t.Errorf("no %s", name)
		}
		if other := seen[value]; other != "" {
			t.Errorf("%s and %s are both %v", name, other, value)
		}
		seen[value] = name
	}
}

func TestJSONRefusesUnknownFields(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "BUG:") || !strings.Contains(got, "nonsense") {
			t.Errorf("panicked with %q", got)
		}
	}()
	jsonFields([]string{"nonsense"})
}

func TestMillis(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"}, {-time.Second, "0"}, {499 * time.Nanosecond, "0"}, {500 * time.Nanosecond, "0.001"}, {time.Millisecond, "1"},
		{1010 * time.Microsecond, "1.010"}, {999_999_600 * time.Nanosecond, "1000"}, {time.Hour, "3600000"},
	} {
		if got := string(appendMillis(nil, c.d)); got != c.want {
			t.Errorf("%v: %s, want %s", c.d, got, c.want)
		}
	}
}

func TestGatewayDurationIsNeverNegative(t *testing.T) {
	if got := (&Record{Duration: 1, UpstreamDuration: 2}).gatewayDuration(); got != 0 {
		t.Errorf("%v", got)
	}
}

func TestJSONString(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{`q"b\`, `"q\"b\\"`},
		{"a\nb\rc\td\x00e\x1b[31m\x7f", `"a\nb\rc\td\u0000e\u001b[31m\u007f"`},
		{"ü→𝄞", `"ü→𝄞"`},
		{"\xff\xc3(\xed\xa0\x80", `"\ufffd\ufffd(\ufffd\ufffd\ufffd"`},
		{"\ufffd", `"` + "\ufffd" + `"`},
		{"a\u0085\u009bb\u2028\u2029", `"a\u0085\u009bb\u2028\u2029"`},
	} {
		if got := string(appendString(nil, c.in)); got != c.want {
			t.Errorf("%q: %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzJSONString(f *testing.F) {
	f.Add("a\"\\\n\x00\xff\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		line := appendString(nil, s)
		var got string
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q became %s: %v", s, line, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Fatalf("%q came back as %q", s, got)
		}
		for _, c := range line {
			if c < ' ' || c == 0x7f {
				t.Fatalf("a control character in %q", line)
			}
		}
	})
}

func TestCommonAndCombined(t *testing.T) {
	forged := &Record{
		Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Method: "GE\"T x", Path: "/a b", Query: "?\r\n1.2.3.4 - -", Protocol: "HTTP/1.1", Status: 400, BytesOut: 5,
		Consumer: "ann \x1b", Referer: `" 200 0 "`, UserAgent: "é\\\n\x00",
	}
	for _, c := range []struct {
		name   string
		encode func([]byte, *Record) []byte
		record *Record
		want   string
	}{
		{"common", appendCommon, full(), `2001:db8::1 - ann [04/Mar/2026:05:06:07 +0200] "GET /a%20b?x=1 HTTP/1.1" 502 34567`},
		{"combined", appendCombined, full(), `2001:db8::1 - ann [04/Mar/2026:05:06:07 +0200] "GET /a%20b?x=1 HTTP/1.1" 502 34567 "https://x.test/" "curl/8"`},
		{"empty", appendCombined, &Record{Time: forged.Time}, `- - - [04/Mar/2026:05:06:07 +0000] "-" 0 0 "-" "-"`},
		{"forged", appendCombined, forged, `- - ann\x20\x1b [04/Mar/2026:05:06:07 +0000] "GE\x22T\x20x /a\x20b?\x0d\x0a1.2.3.4\x20-\x20- HTTP/1.1" 400 5 "\x22 200 0 \x22" "\xc3\xa9\x5c\x0a\x00"`},
	} {
		if got := string(c.encode(nil, c.record)); got != c.want+"\n" {
			t.Errorf("%s:\ngot  %swant %s", c.name, got, c.want)
		}
	}
}

// A record must stay a plain copy: nothing in it may refer to an exchange.
func TestRecordIsPlain(t *testing.T) {
	record := reflect.TypeFor[Record]()
	for i := range record.NumField() {
		switch field := record.Field(i); field.Type.Kind() {
		case reflect.String, reflect.Int, reflect.Int64:
		default:
			if name := field.Type.String(); name != "time.Time" && name != "netip.Addr" {
				t.Errorf("%s is a %s", field.Name, name)
			}
		}
	}
}

func TestEncodersDoNotAllocate(t *testing.T) {
	record, fields, dst := full(), jsonFields(nil), make([]byte, 0, 2048)
	for name, encode := range map[string]func(){
		"json":     func() { appendJSON(dst, record, fields) },
		"common":   func() { appendCommon(dst, record) },
		"combined": func() { appendCombined(dst, record) },
	} {
		if n := testing.AllocsPerRun(100, encode); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	record, fields, dst := full(), jsonFields(nil), make([]byte, 0, 2048)
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			appendJSON(dst, record, fields)
		}
	})
	b.Run("combined", func(b *testing.B) {
		for b.Loop() {
			appendCombined(dst, record)
		}
	})
}
