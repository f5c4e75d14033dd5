package architecture

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

func noInit(p *pkg, report func(token.Pos, string)) {
	for _, f := range p.files {
		for _, declaration := range f.syntax.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
				report(function.Pos(), "no init: what runs is called by name")
			}
		}
	}
}

// registries are the members of packages that share one hidden object with the
// whole process. "*" is all of a package.
var registries = map[string]string{
	"net/http": "DefaultServeMux Handle HandleFunc DefaultClient DefaultTransport Get Head Post PostForm",
	"log/slog": "Default SetDefault SetLogLoggerLevel With Log LogAttrs Debug DebugContext Info InfoContext Warn WarnContext Error ErrorContext",
	"flag":     "CommandLine Parse Args Arg NArg Bool BoolVar Int IntVar String StringVar Duration DurationVar Var Func",
	"expvar":   "*",
	"mime":     "AddExtensionType",
	"github.com/prometheus/client_golang/prometheus":          "DefaultRegisterer DefaultGatherer MustRegister Register Unregister",
	"github.com/prometheus/client_golang/prometheus/promauto": "*",
	"github.com/prometheus/client_golang/prometheus/promhttp": "Handler",
	"go.opentelemetry.io/otel":                                "*",
}

func noDefaultRegistry(p *pkg, report func(token.Pos, string)) {
	p.inspectProduct(func(node ast.Node) {
		expression, ok := node.(ast.Expr)
		if !ok {
			return
		}
		from, name := p.member(expression)
		members := registries[from]
		if p.path == "cmd/sluice" && from == "log/slog" && (name == "SetDefault" || name == "SetLogLoggerLevel") {
			return // the command says where libraries log that know no other place
		}
		if members == "*" || name != "" && strings.Contains(" "+members+" ", " "+name+" ") {
			report(node.Pos(), from+"."+name+" is shared by the whole process: make one and pass it")
		}
	})
}

// noPackageState finds variables of a package that anything changes after they
// were declared, and those that are made to be changed. Tables and errors,
// which only are read, pass.
func noPackageState(p *pkg, report func(token.Pos, string)) {
	change := func(expression ast.Expr, how string) {
		if name := p.packageVariable(expression); name != "" {
			report(expression.Pos(), "the package's variable "+name+" "+how+": state belongs to an object")
		}
	}
	p.inspectProduct(func(node ast.Node) {
		switch n := node.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				change(left, "is assigned")
			}
		case *ast.IncDecStmt:
			change(n.X, "is counted")
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				change(n.Key, "is assigned")
				change(n.Value, "is assigned")
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				change(n.X, "has its address taken")
			}
		case *ast.CallExpr:
			if len(n.Args) > 0 && p.builtin(n.Fun, "delete", "clear", "copy") {
				change(n.Args[0], "is changed")
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if object := p.info.Defs[name]; object == nil || !isPackageVariable(object) {
					continue
				}
				made := n.Type
				if made == nil && i < len(n.Values) {
					made = n.Values[i]
				}
				if p.changesByNature(made) {
					report(name.Pos(), "the package's variable "+name.Name+" is made to be changed: state belongs to an object")
				}
			}
		}
	})
}

// packageVariable returns the name of the package's own variable that an
// expression changes when it is assigned to, or "".
func (p *pkg) packageVariable(expression ast.Expr) string {
	for {
		switch e := expression.(type) {
		case *ast.Ident:
			if object := p.info.Uses[e]; object != nil && isPackageVariable(object) {
				return e.Name
			}
			return ""
		case *ast.IndexExpr:
			expression = e.X
		case *ast.SelectorExpr:
			expression = e.X
		case *ast.StarExpr:
			expression = e.X
		case *ast.ParenExpr:
			expression = e.X
		default:
			return ""
		}
	}
}

func isPackageVariable(object types.Object) bool {
	variable, ok := object.(*types.Var)
	return ok && variable.Pkg() != nil && variable.Parent() == variable.Pkg().Scope()
}

// changesByNature tells whether a type, or a value by how it is written, is a
// lock, an atomic or a channel.
func (p *pkg) changesByNature(expression ast.Expr) bool {
	switch e := expression.(type) {
	case *ast.SelectorExpr:
		from, name := p.member(e)
		return from == "sync" && !strings.HasPrefix(name, "Once") || from == "sync/atomic"
	case *ast.StarExpr:
		return p.changesByNature(e.X)
	case *ast.IndexExpr: // atomic.Pointer[T]
		return p.changesByNature(e.X)
	case *ast.UnaryExpr:
		return p.changesByNature(e.X)
	case *ast.CompositeLit:
		return p.changesByNature(e.Type)
	case *ast.CallExpr:
		if len(e.Args) > 0 && p.builtin(e.Fun, "make", "new") {
			return p.changesByNature(e.Args[0])
		}
		return false
	case *ast.ChanType:
		return true
	}
	return false
}

// panicsNameBugs holds panics to broken invariants, which say so, and to
// passing on what was recovered.
func panicsNameBugs(p *pkg, report func(token.Pos, string)) {
	recovered := map[types.Object]bool{}
	p.inspectProduct(func(node ast.Node) {
		if assign, ok := node.(*ast.AssignStmt); ok && len(assign.Rhs) == 1 {
			if call, ok := assign.Rhs[0].(*ast.CallExpr); ok && p.builtin(call.Fun, "recover") {
				if name, ok := assign.Lhs[0].(*ast.Ident); ok {
					recovered[p.info.Defs[name]] = true
				}
			}
		}
	})
	p.inspectProduct(func(node ast.Node) {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 || !p.builtin(call.Fun, "panic") {
			return
		}
		if name, ok := call.Args[0].(*ast.Ident); ok && recovered[p.info.Uses[name]] {
			return
		}
		// The one panic that net/http asks for: it ends a response.
		if from, name := p.member(call.Args[0]); from == "net/http" && name == "ErrAbortHandler" {
			return
		}
		if !strings.HasPrefix(p.leadingText(call.Args[0]), "BUG:") {
			report(call.Pos(), `only a broken invariant panics, and its message begins with "BUG:"`)
		}
	})
}

// leadingText returns the literal that a message begins with, or "".
func (p *pkg) leadingText(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return p.leadingText(e.X)
	case *ast.CallExpr:
		if from, _ := p.member(e.Fun); from == "fmt" && len(e.Args) > 0 {
			return p.leadingText(e.Args[0])
		}
	}
	return ""
}

// nobodySleeps: a product that sleeps cannot be stopped, a test that sleeps is
// slow or wrong. Tests may wait between two looks at a condition, in a loop that
// counts nothing; under testing/synctest sleeping moves the clock.
func nobodySleeps(p *pkg, report func(token.Pos, string)) {
	for _, f := range p.files {
		test := f.test || table[p.path].test
		synctest := false
		f.imports(func(_ *ast.ImportSpec, name string) { synctest = synctest || name == "testing/synctest" })
		if test && synctest {
			continue
		}
		polls := map[ast.Node]bool{} // what stands inside such a loop
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			if loop, ok := node.(*ast.ForStmt); ok && test {
				if _, counts := loop.Post.(*ast.IncDecStmt); !counts {
					ast.Inspect(loop, func(inner ast.Node) bool { polls[inner] = true; return true })
				}
			}
			if expression, ok := node.(ast.Expr); ok && !polls[node] {
				if from, name := p.member(expression); from == "time" && name == "Sleep" {
					report(node.Pos(), "nobody sleeps: wait for a condition, a timer with a context, or use testing/synctest")
				}
			}
			return true
		})
	}
}

func filesAreShort(p *pkg, lines int, report func(token.Pos, string)) {
	for _, f := range p.files {
		if f.lines > lines {
			report(f.syntax.Name.Pos(), fmt.Sprintf("%d lines, %d are the limit: it holds more than one thing", f.lines, lines))
		}
	}
}

// inspectProduct visits every node outside tests and what is made for them.
func (p *pkg) inspectProduct(visit func(ast.Node)) {
	if table[p.path].test {
		return
	}
	for _, f := range p.files {
		if f.test {
			continue
		}
		ast.Inspect(f.syntax, func(node ast.Node) bool {
			if node != nil {
				visit(node)
			}
			return true
		})
	}
}
