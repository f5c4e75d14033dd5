package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder decodes the nodes of one document into structs.
type decoder struct {
	src   *source
	env   Environment
	file  func(path string) // notes a file that is read
	kinds []Kind
	out   *collector
	types map[reflect.Type]*structType
	path  []hop
	left  int // nodes that may still be decoded: aliases can multiply them
	names templateNames
	// listed: the document is a file of its own, as of keys, that options name.
	listed bool
	// stores are the stores that options name.
	stores []parameterUse
}

// hop is one step of the way to the node at hand, for messages.
type hop struct {
	key   string
	index int // -1: a key
}

// custom is a type that decodes itself.
type custom interface {
	decode(d *decoder, n *yaml.Node)
}

// scalarType is a type that is written as one scalar.
type scalarType interface {
	// set takes the value, or returns what is wrong with it: unwanted, or a
	// clause that follows the value's name.
	set(s scalar) *fault
	// want says what is wanted, for messages: a duration such as 30s.
	want() string
}

// textType is a struct that may be written as one text.
type textType interface {
	setText(s scalar) *fault
	want() string
}

// located is what structs embed that are validated later.
type located struct {
	place
	broken bool // a problem inside it was reported
}

func (l *located) locate(p place) { l.place = p }
func (l *located) fail()          { l.broken = true }

type locatable interface {
	locate(p place)
	fail()
}

var (
	customType  = reflect.TypeFor[custom]()
	scalarTypes = reflect.TypeFor[scalarType]()
	textTypes   = reflect.TypeFor[textType]()
	laterType   = reflect.TypeFor[Later]()
	defaultType = reflect.TypeFor[Defaulter]()
)

func newDecoder(src *source, kinds []Kind, env Environment, out *collector, file func(string)) *decoder {
	return &decoder{src: src, env: env, file: file, kinds: kinds, out: out, types: map[reflect.Type]*structType{}, left: 600_000 + len(src.text)/2}
}

func (d *decoder) here(n *yaml.Node) place { return place{d.src, n} }

func (d *decoder) problem(n *yaml.Node, message, hint string) {
	d.out.add(d.here(n), message, hint)
}

// name is what a message calls the node at hand.
func (d *decoder) name() string {
	if len(d.path) == 0 {
		return "the document"
	}
	end := len(d.path)
	start := end - 1
	for start > 0 && d.path[start].index >= 0 {
		start--
	}
	var out strings.Builder
	for _, step := range d.path[start:end] {
		if step.index < 0 {
			out.WriteString(step.key)
		} else {
			out.WriteString("[" + strconv.Itoa(step.index) + "]")
		}
	}
	return out.String()
}

func (d *decoder) mismatch(n *yaml.Node, want, hint string) {
	d.problem(n, fmt.Sprintf("%s must be %s, not %s", d.name(), want, describe(n)), hint)
}

// describe says what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 && n.Tag != "!!str" {
		switch natureOf(n.Value) {
		case isNull:
			return "nothing"
		case isBool:
			return n.Value
		case isInt, isFloat:
			return "the number " + n.Value
		case isText:
		}
	}
	return "the text " + short(n.Value)
}

// short quotes a text for a message, cut if it is long.
func short(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most-1]) + "…"
	}
	return strconv.Quote(s)
}

// follow returns what an alias stands for. False: the document is too much.
func (d *decoder) follow(n *yaml.Node) (*yaml.Node, bool) {
	if d.left--; d.left < 0 {
		if d.left == -1 {
			d.problem(n, "aliases make the document too large", "repeat less by anchors and aliases")
		}
		return n, false
	}
	for range 16 {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			return n, true
		}
		n = n.Alias
	}
	return n, false
}

func isNullNode(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && isNullText(n.Value)
}

// decode puts a node into v, which is addressable, and reports what is wrong.
func (d *decoder) decode(n *yaml.Node, v reflect.Value) {
	n, ok := d.follow(n)
	if !ok {
		return
	}
	d.tagged(n)
	t := v.Type()
	switch info := d.typeOf(t); info.way {
	case wayLater:
		d.problem(n, d.name()+" is not supported yet", "")
	case wayCustom:
		v.Addr().Interface().(custom).decode(d, n)
	case wayScalar:
		value := v.Addr().Interface().(scalarType)
		d.scalar(n, value.want(), value.set)
	case wayPointer:
		value, faults := reflect.New(t.Elem()), d.out.faults
		d.setDefaults(value)
		d.decode(n, value.Elem())
		if d.out.faults == faults {
			v.Set(value)
		}
	case waySlice:
		d.list(n, v)
	case wayText:
		if n.Kind == yaml.ScalarNode && !isNullNode(n) {
			value, faults := v.Addr().Interface().(textType), d.out.faults
			d.scalar(n, value.want(), value.setText)
			if l, ok := value.(locatable); ok {
				l.locate(d.here(n))
				if d.out.faults > faults {
					l.fail()
				}
			}
			return
		}
		d.structure(n, v, info)
	case wayStruct:
		d.structure(n, v, info)
	case wayBasic:
		d.basic(n, v)
	}
}

// tagged reports a tag of a mapping or a list, which can have no other meaning
// than it has anyway. Those of scalars are for read.
func (d *decoder) tagged(n *yaml.Node) {
	if n.Style&yaml.TaggedStyle == 0 || n.Kind == yaml.ScalarNode ||
		n.Kind == yaml.MappingNode && n.Tag == "!!map" || n.Kind == yaml.SequenceNode && n.Tag == "!!seq" {
		return
	}
	f := unknownTag(n.Tag)
	d.problem(n, f.message, f.hint)
}

func unknownTag(tag string) *fault {
	return faulty("the tag "+tag+" is not supported", "leave it out")
}

// into decodes a node into the struct that pointer points to.
func (d *decoder) into(n *yaml.Node, pointer any) { d.decode(n, reflect.ValueOf(pointer).Elem()) }

// setDefaults gives a new value, of which p is a pointer, its defaults.
func (d *decoder) setDefaults(p reflect.Value) {
	if d.typeOf(p.Type().Elem()).defaults {
		p.Interface().(Defaulter).SetDefaults()
	}
}

// unwanted is the fault of a value of another type than is wanted.
func unwanted(hint string) *fault { return &fault{hint: hint} }

// scalar reads a scalar and hands it to set, whose faults follow the name of
// the value. Null is no value of anything.
func (d *decoder) scalar(n *yaml.Node, want string, set func(scalar) *fault) {
	switch {
	case isNullNode(n):
		d.problem(n, d.name()+" has no value", "write one, or leave the key out")
		return
	case n.Kind != yaml.ScalarNode:
		d.mismatch(n, want, "")
		return
	}
	s, f := d.read(n)
	if f != nil {
		d.problem(n, f.message, f.hint)
		return
	}
	switch f = set(s); {
	case f == nil:
	case f.message == "":
		d.mismatch(n, want, f.hint)
	default:
		d.problem(n, d.name()+" "+f.message, f.hint)
	}
}
