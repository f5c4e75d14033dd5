package access

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// The variables of an expression.
const (
	varMethod   = "request.method"
	varPath     = "request.path"
	varHost     = "request.host"
	varHeaders  = "request.headers"
	varRoute    = "route"
	varParams   = "params"
	varClientIP = "client_ip"
	varClaims   = "claims"
	varConsumer = "consumer"
	varTier     = "tier"
	varGroups   = "groups"
)

const variables = "request.method, request.path, request.host, request.headers, params, route, client_ip, claims, consumer, tier and groups"

const (
	// costLimit is what an evaluation may cost, in CEL's units, of which a comparison is
	// about one: some ten milliseconds, past which others would wait too long.
	costLimit = 100_000
	// At load the texts and lists of a request are taken to be as long as real ones get,
	// which seldom all are at once; so that may come to more than costLimit.
	likelyText    = 1024
	likelyList    = 100
	estimateLimit = 10 * costLimit
	// longestExpression bounds what the parser is given, in characters.
	longestExpression = 16 << 10
)

// language is CEL with the variables of an exchange. It is made when it is first
// needed: most configurations have no expression.
type language func() *cel.Env

func newLanguage() language {
	return sync.OnceValue(func() *cel.Env {
		env, err := cel.NewEnv(
			cel.Variable(varMethod, cel.StringType),
			cel.Variable(varPath, cel.StringType),
			cel.Variable(varHost, cel.StringType),
			cel.Variable(varHeaders, cel.MapType(cel.StringType, cel.StringType)),
			cel.Variable(varRoute, cel.StringType),
			cel.Variable(varParams, cel.MapType(cel.StringType, cel.StringType)),
			cel.Variable(varClientIP, cel.StringType),
			cel.Variable(varClaims, cel.MapType(cel.StringType, cel.DynType)),
			cel.Variable(varConsumer, cel.StringType),
			cel.Variable(varTier, cel.StringType),
			cel.Variable(varGroups, cel.ListType(cel.StringType)),
			cel.CrossTypeNumericComparisons(true),
			cel.ParserExpressionSizeLimit(longestExpression),
			cel.RegexProgramSizeLimit(1000),
			ext.Network(),
		)
		if err != nil {
			panic("BUG: the language of expressions: " + err.Error())
		}
		return env
	})
}

// expression is a checked expression, safe for concurrent use.
type expression struct {
	program cel.Program
	text    string
	// asksWho: it looks at who the client is.
	asksWho bool
}

// mistake is what is wrong with an expression, as a clause, and how to mend it.
type mistake struct{ text, hint string }

// compile checks an expression's types and what it may cost.
func (l language) compile(text string) (*expression, *mistake) {
	env := l()
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, mistakeOf(issues)
	}
	if result := ast.OutputType(); !result.IsExactType(cel.BoolType) {
		return nil, &mistake{fmt.Sprintf("must be true or false, and this is of the type %s", result), "compare it, as in claims.admin == true"}
	}
	estimate, err := env.EstimateCost(ast, likely{})
	if err != nil {
		return nil, &mistake{"has a cost that cannot be told: " + err.Error(), ""}
	}
	if estimate.Max > estimateLimit {
		return nil, &mistake{"may cost too much for one request: it goes through lists within lists, or long texts again and again", "simplify it"}
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costLimit))
	if err != nil {
		return nil, &mistake{"cannot be used: " + err.Error(), ""}
	}
	e := &expression{program: program, text: text}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		switch reference.Name {
		case varClaims, varConsumer, varTier, varGroups:
			e.asksWho = true
		}
	}
	return e, nil
}

// mistakeOf makes CEL's first message one that stands in a line.
func mistakeOf(issues *cel.Issues) *mistake {
	list := issues.Errors()
	if len(list) == 0 {
		return &mistake{"is no expression: " + issues.Err().Error(), ""}
	}
	first := list[0]
	message := strings.ReplaceAll(strings.TrimPrefix(first.Message, "Syntax error: "), " (in container '')", "")
	message = strings.Join(strings.Fields(message), " ")
	hint := ""
	if strings.HasPrefix(message, "undeclared reference") && !strings.Contains(message, "did you mean") {
		hint = "known here: " + variables
	}
	if len(message) > longestMistake { // it may have the expression's own words in it
		message = strings.ToValidUTF8(message[:longestMistake], "") + "…"
	}
	if first.Location.Line() < 1 {
		return &mistake{"is no expression: " + message, hint} // as a whole
	}
	return &mistake{fmt.Sprintf("has a mistake at %d:%d of its text: %s", first.Location.Line(), first.Location.Column()+1, message), hint}
}

// longestMistake is how many bytes of the library's message are told.
const longestMistake = 300

var (
	errDenied     = errors.New("the expression does not allow it")
	errEvaluation = errors.New("the expression cannot be evaluated for this request")
)

// allows evaluates the expression; nil: it is true. What cannot be evaluated is not
// allowed.
func (e *expression) allows(vars cel.Activation) error {
	result, _, err := e.program.Eval(vars)
	switch {
	case err != nil && e.says(err):
		return fmt.Errorf("%w: %w", errEvaluation, err)
	case err != nil:
		return errEvaluation
	case result != types.True:
		return errDenied
	}
	return nil
}

// says tells whether what is wrong at run time has nothing of a request in it, which may
// be a credential or what a claim says of somebody, but is of the expression's own text.
func (e *expression) says(err error) bool {
	key, missing := strings.CutPrefix(err.Error(), "no such key: ")
	return missing && strings.Contains(e.text, key) || strings.HasPrefix(err.Error(), "no such overload")
}

// likely tells how large the parts of a request are, to estimate costs at load.
type likely struct{}

// EstimateCallCost leaves it to the library what functions cost.
func (likely) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize is of what comes from a request.
func (likely) EstimateSize(element cost.AstNode) *cost.SizeEstimate {
	if element.ComputedSize() != nil {
		return nil
	}
	switch element.Type().Kind() {
	case types.StringKind, types.BytesKind:
		return &cost.SizeEstimate{Max: likelyText}
	default:
		return &cost.SizeEstimate{Max: likelyList}
	}
}
