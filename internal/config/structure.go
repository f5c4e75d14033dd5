package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// way is how values of a type are decoded.
type way int

const (
	wayBasic way = iota
	wayLater
	wayCustom
	wayScalar
	wayText
	wayPointer
	waySlice
	wayStruct
)

// structType is what the decoder knows of a type.
type structType struct {
	way      way
	defaults bool // it implements Defaulter
	fields   []field
	names    []string // of the fields that are supported
}

// field is one key of a struct.
type field struct {
	name, doc, note string
	index           int
	required        bool
	later           bool
	enum            []string
	typ             reflect.Type
}

func (t *structType) find(name string) int {
	for i := range t.fields {
		if t.fields[i].name == name {
			return i
		}
	}
	return -1
}

func (d *decoder) typeOf(t reflect.Type) *structType {
	info := d.types[t]
	if info == nil {
		info = inspect(t)
		d.types[t] = info
	}
	return info
}

// inspect reads how values of a type are decoded from its methods and tags.
func inspect(t reflect.Type) *structType {
	pointer := reflect.PointerTo(t)
	info := &structType{defaults: pointer.Implements(defaultType)}
	switch {
	case t == laterType:
		info.way = wayLater
	case pointer.Implements(customType):
		info.way = wayCustom
	case pointer.Implements(scalarTypes):
		info.way = wayScalar
	case t.Kind() == reflect.Pointer:
		info.way = wayPointer
	case t.Kind() == reflect.Slice:
		info.way = waySlice
	case t.Kind() == reflect.Struct:
		info.way = wayStruct
		if pointer.Implements(textTypes) {
			info.way = wayText
		}
	}
	if t.Kind() != reflect.Struct {
		return info
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("config"), ",")
		if name == "" {
			continue
		}
		info.fields = append(info.fields, field{
			name: name, doc: f.Tag.Get("doc"), note: f.Tag.Get("default"), index: i,
			required: options == "required", later: f.Type == laterType, typ: f.Type,
			enum: words(f.Tag.Get("enum")),
		})
		if f.Type != laterType {
			info.names = append(info.names, name)
		}
	}
	return info
}

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, "|")
}

// structure decodes a mapping into a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, info *structType) {
	faults := d.out.faults
	l, isLocated := v.Addr().Interface().(locatable)
	if isLocated {
		l.locate(d.here(n))
		defer func() {
			if d.out.faults > faults {
				l.fail()
			}
		}()
	}
	if n.Kind != yaml.MappingNode {
		want := "a mapping of keys to values"
		if info.way == wayText {
			want = v.Addr().Interface().(textType).want()
		}
		d.mismatch(n, want, "")
		return
	}
	given := make([]*yaml.Node, len(info.fields))
	for _, p := range d.pairs(n) {
		i := info.find(p.key.Value)
		switch {
		case i < 0:
			d.problem(p.key, fmt.Sprintf("unknown key %s", short(p.key.Value)), d.out.hint(p.key.Value, info.names))
			continue
		case given[i] != nil:
			d.problem(p.key, fmt.Sprintf("the key %s is here twice: the first is on line %d", p.key.Value, given[i].Line), "remove one of them")
			continue
		}
		given[i] = p.key
		f := &info.fields[i]
		d.path = append(d.path, hop{f.name, -1})
		d.field(p, v.Field(f.index), f)
		d.path = d.path[:len(d.path)-1]
	}
	d.needed(n, info, given)
}

// needed reports the keys that a block must have and has not: those of info that are not
// among given, which has one for each of them.
func (d *decoder) needed(n *yaml.Node, info *structType, given []*yaml.Node) {
	for i := range info.fields {
		if f := &info.fields[i]; f.required && given[i] == nil {
			where := "the document"
			if len(d.path) > 0 {
				where = d.name()
			}
			d.problem(n, fmt.Sprintf("%s needs the key %s", where, f.name), "")
		}
	}
}

func (d *decoder) field(p pair, v reflect.Value, f *field) {
	switch {
	case f.later:
		d.problem(p.key, f.name+" is not supported yet", "")
		return
	case len(d.path) == 1 && isNullNode(p.value):
		return // a block whose keys are all commented out says nothing
	}
	d.decode(p.value, v)
	if f.enum != nil {
		d.enumerated(p.value, v, f)
	}
}

// enumerated holds a text, or each text of a list, to those that it may be.
func (d *decoder) enumerated(n *yaml.Node, v reflect.Value, f *field) {
	n, ok := d.follow(n)
	if !ok {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.enumerated(n, v.Elem(), f)
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && i < len(n.Content); i++ {
			d.path = append(d.path, hop{index: i})
			d.enumerated(n.Content[i], v.Index(i), f)
			d.path = d.path[:len(d.path)-1]
		}
	case reflect.String:
		if n.Kind == yaml.ScalarNode && !isNullNode(n) {
			d.oneOf(n, v.String(), f)
		}
	default:
		panic("BUG: enum on " + v.Type().String())
	}
}

func (d *decoder) oneOf(n *yaml.Node, value string, f *field) {
	for _, word := range f.enum {
		if value == word {
			return
		}
	}
	if value == "" {
		return // the decoder has reported why
	}
	d.problem(n, fmt.Sprintf("%s must be %s, not %s", d.name(), alternatives(f.enum), short(n.Value)), didYouMean(d.out.nearest(value, f.enum)))
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", near)
}

// alternatives is a list of texts as one reads it: a, b or c.
func alternatives(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// list decodes a sequence into a slice.
func (d *decoder) list(n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode && !isNullNode(n) {
			hint = "write [" + n.Value + "]"
		}
		d.mismatch(n, "a list", hint)
		return
	}
	if d.left < 0 {
		return
	}
	items := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d.left < 0 {
			break
		}
		d.path = append(d.path, hop{index: i})
		d.setDefaults(items.Index(i).Addr())
		d.decode(item, items.Index(i))
		d.path = d.path[:len(d.path)-1]
	}
	v.Set(items)
}

// decode decodes a mapping with free keys.
func (m *Map[T]) decode(d *decoder, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, "a mapping of names to values", "")
		return
	}
	pairs := d.pairs(n)
	first := make(map[string]*yaml.Node, len(pairs))
	entries := make(Map[T], 0, len(pairs))
	for _, p := range pairs {
		key := p.key.Value
		if first[key] != nil {
			d.problem(p.key, fmt.Sprintf("the key %s is here twice: the first is on line %d", key, first[key].Line), "remove one of them")
			continue
		}
		first[key] = p.key
		entries = append(entries, Entry[T]{Key: key, key: d.here(p.key)})
		d.path = append(d.path, hop{key, -1})
		value := reflect.ValueOf(&entries[len(entries)-1].Value)
		d.setDefaults(value)
		d.decode(p.value, value.Elem())
		d.path = d.path[:len(d.path)-1]
	}
	*m = entries
}

// basic decodes texts, booleans and numbers.
func (d *decoder) basic(n *yaml.Node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		d.scalar(n, "text", func(s scalar) *fault {
			if !s.loose && s.nature() != isText {
				return unwanted(fmt.Sprintf("put it into quotes: %q", s.s))
			}
			v.SetString(s.s)
			return nil
		})
	case reflect.Bool:
		d.scalar(n, "true or false", func(s scalar) *fault {
			if s.nature() != isBool {
				return unwanted(boolHint(s))
			}
			v.SetBool(s.boolean())
			return nil
		})
	case reflect.Int, reflect.Int32, reflect.Int64:
		d.scalar(n, "a whole number", func(s scalar) *fault {
			if s.nature() != isInt {
				return unwanted(numberHint(s))
			}
			number, err := s.integer()
			if err != nil || v.OverflowInt(number) {
				return faulty("is too large", "")
			}
			v.SetInt(number)
			return nil
		})
	default:
		panic("BUG: no way to decode a " + v.Type().String())
	}
}

func boolHint(s scalar) string {
	switch strings.ToLower(s.s) {
	case "yes", "on":
		return "write true"
	case "no", "off":
		return "write false"
	case "true", "false":
		return "write it without quotes"
	}
	return ""
}

func numberHint(s scalar) string {
	if !s.typed && natureOf(s.s) == isInt {
		return "write it without quotes"
	}
	return ""
}
