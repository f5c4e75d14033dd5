package architecture

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pkg is one folder of Go files.
type pkg struct {
	path  string // below the module, as internal/message
	fset  *token.FileSet
	files []*file
	// info knows what each name stands for, as far as the folder itself and
	// the names of its imports tell.
	info *types.Info
}

// file is one Go file.
type file struct {
	syntax *ast.File
	test   bool
	lines  int
}

// load reads every package below root, but for testdata, hidden folders, what
// was built, and other modules.
func load(t *testing.T, root string) (packages []*pkg) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name != root {
			if base := entry.Name(); base == "testdata" || base[0] == '.' || base[0] == '_' {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		if below == "bin" || below == "tmp" {
			return filepath.SkipDir
		}
		p, err := read(name, below)
		if p != nil {
			packages = append(packages, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// read parses the Go files of a folder; without any the package is nil.
func read(folder, below string) (*pkg, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		return nil, err
	}
	p := &pkg{
		path: below,
		fset: token.NewFileSet(),
		info: &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
	}
	units := map[string][]*ast.File{} // an external test is a package of its own
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		syntax, err := parser.ParseFile(p.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, &file{syntax: syntax, test: strings.HasSuffix(name, "_test.go"), lines: bytes.Count(text, []byte("\n"))})
		units[syntax.Name.Name] = append(units[syntax.Name.Name], syntax)
	}
	config := types.Config{Importer: namesOnly{}, Error: func(error) {}}
	for name, files := range units {
		// What comes from other packages has no type here; the errors say so.
		_, _ = config.Check(module+"/"+below+":"+name, p.fset, files, p.info)
	}
	return p, nil
}

// namesOnly imports every package as an empty one: a selector then still tells
// which package it looks into.
type namesOnly struct{}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

func (namesOnly) Import(name string) (*types.Package, error) {
	base := path.Base(name)
	if majorVersion.MatchString(base) {
		base = path.Base(path.Dir(name))
	}
	imported := types.NewPackage(name, base)
	imported.MarkComplete()
	return imported, nil
}

// imports yields each import of a file with its path.
func (f *file) imports(yield func(spec *ast.ImportSpec, name string)) {
	for _, spec := range f.syntax.Imports {
		yield(spec, strings.Trim(spec.Path.Value, "\"`"))
	}
}

// member tells what an expression as pkg.Name names: the path of the package
// and the name; both empty where it is anything else.
func (p *pkg) member(expression ast.Expr) (importPath, name string) {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	left, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	imported, ok := p.info.Uses[left].(*types.PkgName)
	if !ok {
		return "", ""
	}
	return imported.Imported().Path(), selector.Sel.Name
}

// builtin tells whether an expression names one of the language's own
// functions.
func (p *pkg) builtin(expression ast.Expr, names ...string) bool {
	ident, ok := expression.(*ast.Ident)
	if !ok {
		return false
	}
	object, ok := p.info.Uses[ident].(*types.Builtin)
	if !ok {
		return false
	}
	for _, name := range names {
		if object.Name() == name {
			return true
		}
	}
	return false
}
