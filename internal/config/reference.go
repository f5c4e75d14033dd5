package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Reference returns the configuration reference in Markdown, made from the
// structs that documents are decoded into; what is not supported yet is left
// out.
func Reference(kinds []Kind) []byte {
	w := &referenceWriter{schemaWriter: schemaWriter{types: map[reflect.Type]*structType{}, kinds: kinds}}
	w.out.WriteString("# Configuration reference\n\nMade from the code; the descriptions stand there, in `internal/config` and in each kind's options.\n\n" + values)
	root := new(document)
	root.SetDefaults()
	w.section("Document", "", reflect.ValueOf(root).Elem())
	w.out.WriteString("## Kinds of middleware\n\nWritten in `global` and in a route's `middleware` as `{KIND: {…}}`, or once by name under `middleware`.\n\n")
	for _, kind := range kinds {
		w.section("`"+kind.Name+"`", "#", reflect.ValueOf(kind.Options()).Elem())
	}
	return []byte(strings.TrimRight(w.out.String(), "\n") + "\n")
}

const values = `Values are YAML 1.2. A duration is written as ` + "`250ms` or `30s`, a size as `64KiB` or `10MB`, a rate as `100/s`, `5000/m` or `10/h`, a percentage as `20%`" + `.
` + "`${NAME}` and `${NAME:-default}` put in an environment variable, `${file:PATH}` a file's content, `$${` is a literal `${`" + `.
A text with placeholders takes ` + "`{client_ip}`, `{method}`, `{host}`, `{path}`, `{query}`, `{request_id}`, `{route}`, `{consumer}`, `{header.NAME}`, `{cookie.NAME}`, `{claim.NAME}`" + `
and the parameters of the route's path; ` + "`{{` and `}}`" + ` are braces. Relative paths are relative to the file that names them.

`

type referenceWriter struct {
	schemaWriter
	out strings.Builder
}

// section writes a table of a struct's keys, then sections of those within it.
func (w *referenceWriter) section(title, depth string, v reflect.Value) {
	info := w.typeOf(v.Type())
	fmt.Fprintf(&w.out, "##%s %s\n\n", depth, title)
	if len(info.names) == 0 {
		w.out.WriteString("No keys.\n\n")
		return
	}
	w.out.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	type inner struct {
		title string
		value reflect.Value
	}
	var within []inner
	for i := range info.fields {
		f := &info.fields[i]
		if f.later {
			continue
		}
		field := v.Field(f.index)
		doc := f.doc
		if doc != "" {
			doc = strings.ToUpper(doc[:1]) + doc[1:] + "."
		}
		fmt.Fprintf(&w.out, "| `%s` | %s | %s | %s |\n", f.name, cell(w.typeName(field, f)), cell(w.defaultText(field, f)), cell(plain(doc)))
		if value, suffix, ok := w.structWithin(field); ok {
			name := "`" + f.name + suffix + "`"
			if prefix := strings.Trim(title, "`"); prefix != "Document" {
				name = "`" + prefix + "." + f.name + suffix + "`"
			}
			within = append(within, inner{name, value})
		}
	}
	w.out.WriteByte('\n')
	for _, in := range within {
		w.section(in.title, depth, in.value)
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// plain keeps Markdown from reading a meaning into a description.
func plain(text string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`).Replace(text)
}

// plurals are the names of types in lists.
var plurals = map[string]string{
	"text": "texts", "mapping": "mappings", "URL, or mapping": "URLs, or mappings", "address or range": "addresses or ranges",
	"name, or kind with options": "names, or kinds with options", "whole number": "whole numbers", "text with placeholders": "texts with placeholders",
	"word or status": "words and statuses", "key": "keys",
}

func plural(name string) string {
	if many, ok := plurals[name]; ok {
		return many
	}
	return name
}

// structWithin returns the struct that a field's values have inside.
func (w *referenceWriter) structWithin(v reflect.Value) (value reflect.Value, suffix string, ok bool) {
	if v.CanAddr() {
		switch inner := v.Addr().Interface().(type) {
		case mapValue:
			value, more, ok := w.structWithin(w.fresh(inner.mapValue()))
			return value, ".NAME" + more, ok
		case severalOf:
			return w.structWithin(w.fresh(inner.severalOf()))
		case custom, scalarType:
			return v, "", false
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return w.structWithin(w.fresh(v.Type().Elem()))
	case reflect.Slice:
		value, more, ok := w.structWithin(w.fresh(v.Type().Elem()))
		return value, "[]" + more, ok
	case reflect.Struct:
		return v, "", true
	default:
		return v, "", false
	}
}

// typeName says what is written for a field.
func (w *referenceWriter) typeName(v reflect.Value, f *field) string {
	if f.enum != nil {
		words := "`" + strings.Join(f.enum, "`, `") + "`"
		if v.Kind() == reflect.Slice {
			return "list of " + words
		}
		return words
	}
	return w.nameOf(v)
}

func (w *referenceWriter) nameOf(v reflect.Value) string {
	if v.CanAddr() {
		value := v.Addr().Interface()
		if m, ok := value.(mapValue); ok {
			return "mapping of names to " + plural(w.nameOf(w.fresh(m.mapValue())))
		}
		if m, ok := value.(severalOf); ok {
			one := w.nameOf(w.fresh(m.severalOf()))
			return one + ", or list of " + plural(one)
		}
		if name := formOf(value); name != "" {
			return name
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return w.nameOf(w.fresh(v.Type().Elem()))
	case reflect.Slice:
		return "list of " + plural(w.nameOf(w.fresh(v.Type().Elem())))
	case reflect.Struct:
		return "mapping"
	case reflect.Bool:
		return "`true` or `false`"
	case reflect.String:
		return "text"
	default:
		return "whole number"
	}
}

// formOf says how a value is written whose type has a form of its own; empty for
// others.
func formOf(value any) string {
	switch value.(type) {
	case *step:
		return "name, or kind with options"
	case *definition:
		return "kind with options"
	case *Template:
		return "text with placeholders"
	case *Size:
		return "size"
	case *Duration:
		return "duration"
	case *Percent:
		return "percentage"
	case *ByteRate:
		return "bytes a second"
	case *Rate:
		return "rate"
	case *Number:
		return "number"
	case *Prefix:
		return "address or range"
	case *pathText:
		return "path"
	case namedFile:
		return "path of a file"
	case *weight:
		return "whole number or percentage"
	case *key, *LimitKey:
		return "key"
	case *RequiredClaims:
		return "list of names, or mapping of names to values"
	case *LimitKeys:
		return "key, or list of keys"
	case *StoreName:
		return "`memory`, or name of a store"
	case *SessionStore:
		return "`cookie`, or name of a store"
	case *statuses:
		return "status, range, or list of them"
	case *retryReason:
		return "word or status"
	case *endpoint:
		return "URL, or mapping"
	case *condition, *TextOrRegex:
		return "text, or mapping"
	case *WholeRegex:
		return "regular expression"
	}
	return ""
}

func (w *referenceWriter) defaultText(v reflect.Value, f *field) string {
	if f.required {
		return "needed"
	}
	if f.note != "" {
		return f.note
	}
	value, ok := defaultOf(v, f)
	if !ok {
		return ""
	}
	if list, isList := value.([]string); isList {
		return "`[" + strings.Join(list, ", ") + "]`"
	}
	return fmt.Sprintf("`%v`", value)
}
