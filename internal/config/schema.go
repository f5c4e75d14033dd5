package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// variable is what may stand for any scalar: a text with a ${…} in it.
const variable = `\$\{`

// Schema returns the JSON Schema (2020-12) of a document, for editors. It is
// made from the structs that documents are decoded into; what is not supported
// yet is left out.
func Schema(kinds []Kind) []byte {
	w := &schemaWriter{types: map[reflect.Type]*structType{}, kinds: kinds}
	root := new(document)
	root.SetDefaults()
	schema := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "Sluice configuration"},
	}
	schema = append(schema, w.structure(reflect.ValueOf(root).Elem())...)
	definition := object{{"type", "object"}, {"minProperties", 1}, {"maxProperties", 1}, {"additionalProperties", false}}
	properties := object{}
	for _, kind := range kinds {
		value := reflect.ValueOf(kind.Options()).Elem()
		properties = append(properties, member{kind.Name, object{{"anyOf", []any{w.schema(value), object{{"type", "null"}}}}}})
	}
	definition = append(definition, member{"properties", properties})
	step := object{{"anyOf", []any{
		object{{"type", "string"}, {"description", "the name of a middleware"}},
		object{{"$ref", "#/$defs/middleware"}},
	}}}
	schema = append(schema, member{"$defs", object{{"middleware", definition}, {"step", step}}})
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		panic("BUG: the schema has no JSON: " + err.Error())
	}
	return append(text, '\n')
}

type schemaWriter struct {
	types map[reflect.Type]*structType
	kinds []Kind
}

func (w *schemaWriter) typeOf(t reflect.Type) *structType {
	if w.types[t] == nil {
		w.types[t] = inspect(t)
	}
	return w.types[t]
}

// mapValue tells the type of the values of a Map.
type mapValue interface{ mapValue() reflect.Type }

func (*Map[T]) mapValue() reflect.Type { return reflect.TypeFor[T]() }

// schema describes a value of v's type; v has its defaults.
func (w *schemaWriter) schema(v reflect.Value) object {
	t := v.Type()
	if v.CanAddr() {
		switch value := v.Addr().Interface().(type) {
		case *step:
			return object{{"$ref", "#/$defs/step"}}
		case *definition:
			return object{{"$ref", "#/$defs/middleware"}}
		case *Template:
			return object{{"type", "string"}}
		case *key:
			return object{{"type", "string"}, {"description", keyWant}}
		case *LimitKey:
			return object{{"type", "string"}, {"description", limitKeyWant}}
		case *LimitKeys:
			one := w.schema(w.fresh(reflect.TypeFor[LimitKey]()))
			return object{{"anyOf", []any{one, object{{"type", "array"}, {"items", one}}}}}
		case *statuses:
			one := w.schema(w.fresh(reflect.TypeFor[statusRange]()))
			return object{{"anyOf", []any{one, object{{"type", "array"}, {"items", one}}}}}
		case severalOf:
			one := w.schema(w.fresh(value.severalOf()))
			return object{{"anyOf", []any{one, object{{"type", "array"}, {"items", one}}}}}
		case *RequiredClaims:
			names := object{{"type", "array"}, {"items", object{{"type", "string"}}}}
			return object{{"anyOf", []any{names, object{{"type", "object"}}}}, {"description", requiredClaimsWant}}
		case namedFile:
			return object{{"type", "string"}}
		case mapValue:
			return object{{"type", "object"}, {"additionalProperties", w.schema(w.fresh(value.mapValue()))}}
		case scalarType:
			return scalarSchema(value)
		}
	}
	switch info := w.typeOf(t); info.way {
	case wayPointer:
		return w.schema(w.fresh(t.Elem()))
	case waySlice:
		return object{{"type", "array"}, {"items", w.schema(w.fresh(t.Elem()))}}
	case wayText:
		return object{{"anyOf", []any{object{{"type", "string"}}, w.structure(v)}}}
	case wayStruct:
		return w.structure(v)
	default:
		return basicSchema(t)
	}
}

// fresh returns a new value of a type with its defaults.
func (w *schemaWriter) fresh(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if w.typeOf(t).defaults {
		p.Interface().(Defaulter).SetDefaults()
	}
	return p.Elem()
}

// scalarSchema describes a type of this package that is one scalar.
func scalarSchema(value scalarType) object {
	switch value.(type) {
	case *Size, *weight, *statusRange, *retryReason:
		return object{{"type", []string{"integer", "string"}}, {"description", value.want()}}
	case *Number:
		return object{{"type", []string{"number", "string"}}, {"pattern", variable}}
	case *Duration, *ByteRate:
		return object{{"anyOf", []any{object{{"type", "string"}}, object{{"const", 0}}}}, {"description", value.want()}}
	}
	return object{{"type", "string"}, {"description", value.want()}}
}

func basicSchema(t reflect.Type) object {
	switch t.Kind() {
	case reflect.String:
		return object{{"type", "string"}}
	case reflect.Bool:
		return object{{"type", []string{"boolean", "string"}}, {"pattern", variable}}
	default:
		return object{{"type", []string{"integer", "string"}}, {"pattern", variable}}
	}
}

// structure describes a struct.
func (w *schemaWriter) structure(v reflect.Value) object {
	info := w.typeOf(v.Type())
	properties, required := object{}, []string{}
	for i := range info.fields {
		f := &info.fields[i]
		if f.later {
			continue
		}
		properties = append(properties, member{f.name, w.property(v.Field(f.index), f)})
		if f.required {
			required = append(required, f.name)
		}
	}
	schema := object{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}}
	if len(required) > 0 {
		schema = append(schema, member{"required", required})
	}
	return schema
}

// property describes a field of a struct.
func (w *schemaWriter) property(v reflect.Value, f *field) object {
	schema := w.schema(v)
	if f.enum != nil {
		choice := object{{"anyOf", []any{object{{"enum", f.enum}}, object{{"type", "string"}, {"pattern", variable}}}}}
		if v.Kind() == reflect.Slice {
			schema = object{{"type", "array"}, {"items", choice}}
		} else {
			schema = choice
		}
	}
	doc := f.doc
	if i := indexOf(schema, "description"); i >= 0 {
		if doc != "" {
			doc += ": "
		}
		doc += schema[i].value.(string)
		schema = append(schema[:i:i], schema[i+1:]...)
	}
	described := object{}
	if doc != "" {
		described = append(described, member{"description", strings.ToUpper(doc[:1]) + doc[1:] + "."})
	}
	described = append(described, schema...)
	if value, ok := defaultOf(v, f); ok {
		described = append(described, member{"default", value})
	}
	return described
}

func indexOf(o object, name string) int {
	for i := range o {
		if o[i].name == name {
			return i
		}
	}
	return -1
}

// defaultOf returns the default of a field that has one, as it is written.
func defaultOf(v reflect.Value, f *field) (any, bool) {
	if f.required || f.note != "" {
		return nil, false
	}
	if v.CanAddr() {
		switch value := v.Addr().Interface().(type) {
		case *Size:
			return value.String(), true
		case *Duration:
			return value.String(), true
		case *Percent:
			return value.String(), true
		case *ByteRate:
			return value.String(), true
		case *weight:
			return value.share, true
		case *Rate:
			return value.String(), value.Count > 0
		case *Number:
			return float64(*value), *value > 0
		case scalarType, custom:
			return nil, false
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool(), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int(), true
	case reflect.String:
		return v.String(), v.String() != ""
	case reflect.Slice:
		if list, ok := v.Interface().([]string); ok && len(list) > 0 {
			return list, true
		}
	}
	return nil, false
}
