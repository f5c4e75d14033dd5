package architecture

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// place is where a package stands.
type place struct {
	layer int
	// over is a package of the same layer that this one may build on.
	over string
	// test says that only tests import the package; it may import anything.
	test bool
}

// table is the order of the packages. A package may import what stands in a
// lower layer, and nothing beside or above it. Each has one responsibility;
// docs/architecture.md tells it.
var table = map[string]place{
	"internal/message":     {layer: 0},
	"internal/resilience":  {layer: 0},
	"internal/lease":       {layer: 0},
	"internal/model":       {layer: 0},
	"internal/canonical":   {layer: 0},
	"internal/pemfile":     {layer: 0},
	"internal/rpc":         {layer: 0},
	"internal/keyed":       {layer: 0},
	"internal/regularfile": {layer: 0},

	"internal/wire":        {layer: 1},
	"internal/netloop":     {layer: 1},
	"internal/h2":          {layer: 1},
	"internal/config":      {layer: 1},
	"internal/router":      {layer: 1},
	"internal/pipeline":    {layer: 1},
	"internal/telemetry":   {layer: 1},
	"internal/certificate": {layer: 1},
	"internal/discovery":   {layer: 1},
	"internal/token":       {layer: 1},

	"internal/store":         {layer: 2},
	"internal/acme":          {layer: 2},
	"internal/keyset":        {layer: 2},
	"internal/ratelimit":     {layer: 2, over: "internal/store"},
	"internal/server":        {layer: 2},
	"internal/transport":     {layer: 2},
	"internal/upstream":      {layer: 2},
	"internal/provider":      {layer: 2},
	"internal/provider/file": {layer: 2, over: "internal/provider"},

	"internal/middleware/access":   {layer: 3},
	"internal/middleware/auth":     {layer: 3},
	"internal/middleware/edit":     {layer: 3},
	"internal/middleware/external": {layer: 3},
	"internal/middleware/grpc":     {layer: 3},
	"internal/middleware/limit":    {layer: 3},
	"internal/middleware/login":    {layer: 3, over: "internal/middleware/auth"},
	"internal/middleware/traffic":  {layer: 3},
	"internal/proxy":               {layer: 3},
	"internal/answer":              {layer: 3},

	"internal/snapshot": {layer: 4},
	"internal/admin":    {layer: 5},
	"internal/app":      {layer: 6},
	"cmd/sluice":        {layer: 7},

	"internal/gatewaytest":  {test: true},
	"internal/redistest":    {test: true},
	"internal/certtest":     {test: true},
	"internal/logtest":      {test: true},
	"internal/sockettest":   {test: true},
	"internal/waittest":     {test: true},
	"internal/e2e":          {test: true},
	"internal/architecture": {test: true},
}

// vague are names that say nothing of what a package is for.
var vague = map[string]bool{"util": true, "utils": true, "common": true, "manager": true, "factory": true, "helper": true, "helpers": true, "misc": true}

func packageIsKnown(p *pkg, report func(token.Pos, string)) {
	if _, ok := table[p.path]; !ok {
		report(p.files[0].syntax.Name.Pos(), p.path+" stands in no layer: add it to the table of internal/architecture/layer_test.go, and to docs/architecture.md")
	}
}

func nameSaysSomething(p *pkg, report func(token.Pos, string)) {
	for element := range strings.SplitSeq(p.path, "/") {
		if vague[element] {
			report(p.files[0].syntax.Name.Pos(), p.path+": the name says nothing of what the package is for")
		}
	}
}

func importsPointDown(p *pkg, report func(token.Pos, string)) {
	from, ok := table[p.path]
	if !ok || from.test {
		return
	}
	for _, f := range p.files {
		f.imports(func(spec *ast.ImportSpec, name string) {
			target, ok := strings.CutPrefix(name, module+"/")
			if !ok || target == p.path {
				return
			}
			to, known := table[target]
			switch {
			case !known:
				report(spec.Pos(), target+" stands in no layer")
			case to.test && f.test:
			case to.test:
				report(spec.Pos(), target+" is for tests only")
			case to.layer < from.layer || target == from.over:
			default:
				report(spec.Pos(), fmt.Sprintf("%s (layer %d) imports %s (layer %d): imports point down only", p.path, from.layer, target, to.layer))
			}
		})
	}
}

// knowHTTP are the packages that may know net/http: the two adapters, the
// HTTP/2 connection that serves one of them by http.Handler, acme, whose library
// asks a directory by an http.Client, keyset, external and login, which ask issuers
// and authorization services by one, the admin API, and the commands that talk to it. All
// others know internal/message.
var knowHTTP = map[string]bool{"internal/acme": true, "internal/h2": true, "internal/keyset": true, "internal/middleware/external": true, "internal/middleware/login": true, "internal/server": true, "internal/transport": true, "internal/admin": true, "cmd/sluice": true}

func netHTTPStaysAtTheBorder(p *pkg, report func(token.Pos, string)) {
	if knowHTTP[p.path] || table[p.path].test {
		return
	}
	for _, f := range p.files {
		if f.test {
			continue
		}
		f.imports(func(spec *ast.ImportSpec, name string) {
			for _, http := range []string{"net/http", "golang.org/x/net/http2"} {
				if name == http || strings.HasPrefix(name, http+"/") {
					report(spec.Pos(), p.path+" may not know "+name+": use internal/message")
				}
			}
		})
	}
}
