package access

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// TestVariables of an exchange of nobody: they are empty, and there are no others.
func TestVariables(t *testing.T) {
	x := pipeline.NewExchange(t.Context(), &message.Request{Method: "GET", Host: "A.test:80", Path: "/1"}, &model.Listener{}, netip.AddrPort{}, time.Now())
	x.Route = &model.Route{ID: "r"}
	x.Params = []model.Param{{Name: "text", Value: "a%20b"}, {Name: "odd", Value: "a%zz"}}
	for name, want := range map[string]any{
		varMethod: "GET", varHost: "a.test", varRoute: "r", varClientIP: "",
		varConsumer: "", varTier: "", varGroups: []string(nil), varClaims: map[string]any(nil),
		varParams: map[string]string{"text": "a b", "odd": "a%zz"},
	} {
		if got, there := varsOf(x).ResolveName(name); !there || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", name, got, there)
		}
	}
	if got, there := varsOf(x).ResolveName("request"); there {
		t.Errorf("there is a variable of another name: %v", got)
	}
}

// TestHeadersAsAMap: whatever CEL does with a map it can do with the fields.
func TestHeadersAsAMap(t *testing.T) {
	var fields message.Fields
	fields.Add("X-A", "1")
	fields.Add("x_a", "2")
	fields.Add("Cookie", "a=1")
	fields.Add("Cookie", "b=2")
	h, want := &headers{fields: fields}, map[string]string{"x-a": "1,2", "cookie": "a=1; b=2"}
	if native, err := h.ConvertToNative(reflect.TypeFor[map[string]string]()); err != nil || !reflect.DeepEqual(native, want) {
		t.Errorf("as a map of Go: %v, %v", native, err)
	}
	if value := h.Value(); !reflect.DeepEqual(value, want) {
		t.Errorf("the value is %v", value)
	}
	var names []string
	for it := h.Iterator(); it.HasNext() == types.True; {
		name := it.Next()
		names = append(names, string(name.(types.String))) //nolint:forcetypeassert // else the test has failed
		if got := h.Get(name); got.Equal(types.String(want[names[len(names)-1]])) != types.True {
			t.Errorf("%v is %v", name, got)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, slices.Sorted(maps.Keys(want))) || h.Size() != types.Int(2) {
		t.Errorf("the names are %v of %v", names, h.Size())
	}
	for what, got := range map[string]ref.Val{
		"such fields":       h.Equal(&headers{fields: fields.Clone()}),
		"its map":           h.Equal(types.NewStringStringMap(types.DefaultTypeAdapter, want)),
		"a name":            h.Contains(types.String("X-A")),
		"no name":           types.Bool(h.Contains(types.String("x-b")) == types.False),
		"its type":          types.Bool(h.Type() == types.MapType && h.ConvertToType(types.MapType).Type() == types.MapType),
		"a number":          types.Bool(types.IsError(h.Get(types.Int(1))) && types.IsError(h.Contains(types.Int(1)))),
		"what is not there": types.Bool(types.IsError(h.Get(types.String("x-b")))),
	} {
		if got != types.True {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestManyLookUps find what one finds, and cost no more for long names that are nearly the
// same: the library counts each as one step.
func TestManyLookUps(t *testing.T) {
	var fields message.Fields
	long := "X-" + strings.Repeat("a", 600)
	for i := range 90 {
		fields.Add(long+string(rune('a'+i%26))+string(rune('0'+i/26)), strconv.Itoa(i))
	}
	fields.Add("x_b", "1")
	fields.Add("X-B", "2")
	h := &headers{fields: fields}
	for range 4 * mostLooks {
		for name, want := range map[string]string{"X-b": "1,2", "X_B": "1,2", long + "C0": "2", strings.ReplaceAll(long, "-", "_") + "z0": "25"} {
			if got := h.Get(types.String(name)); got.Equal(types.String(want)) != types.True {
				t.Fatalf("%s is %v", name, got)
			}
		}
		for _, name := range []string{"x-\u212a", "x-c", ""} {
			if h.Contains(types.String(name)) != types.False {
				t.Fatalf("%q is there", name)
			}
		}
	}
	if h.looked != mostLooks {
		t.Errorf("went through all fields %d times", h.looked)
	}
}
