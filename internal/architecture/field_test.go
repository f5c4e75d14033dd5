package architecture

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"sluice/internal/message"
)

// fieldsAreKnown finds fields of messages that are made without their name's small
// integer, or with another's: what looks for them by it would let them pass.
func fieldsAreKnown(p *pkg, report func(token.Pos, string)) {
	from := module + "/internal/message"
	p.inspectProduct(func(node ast.Node) {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || literal.Type == nil {
			return
		}
		of, name := p.member(literal.Type)
		switch {
		case of != from:
		case name == "Field":
			p.fieldIsKnown(literal, report)
		case name == "Fields":
			for _, element := range literal.Elts {
				if field, ok := element.(*ast.CompositeLit); ok && field.Type == nil {
					p.fieldIsKnown(field, report)
				}
			}
		}
	})
}

func (p *pkg) fieldIsKnown(field *ast.CompositeLit, report func(token.Pos, string)) {
	parts := [...]string{"Name", "Value", "ID"}
	given := map[string]ast.Expr{}
	for i, element := range field.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				given[key.Name] = pair.Value
			}
		} else if i < len(parts) {
			given[parts[i]] = element
		}
	}
	if len(given) == 0 {
		return
	}
	if given["ID"] == nil {
		report(field.Pos(), "a field needs its ID, or nobody finds it by that: use Fields.Add")
		return
	}
	text, isText := given["Name"].(*ast.BasicLit)
	_, id := p.member(given["ID"])
	if !isText || id == "" {
		return
	}
	spelled, err := strconv.Unquote(text.Value)
	if err == nil && !strings.EqualFold(strings.ReplaceAll(message.Lookup(spelled).String(), "-", ""), strings.TrimSuffix(id, "Other")) {
		report(field.Pos(), "the field's ID is another name's: use Fields.Add")
	}
}
