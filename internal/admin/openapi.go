package admin

import (
	"net/http"
	"strings"
)

// openapi describes the endpoints (OpenAPI 3.1), from the same table that
// serves them.
func (a *API) openapi(w http.ResponseWriter, _ *http.Request) {
	paths := map[string]any{}
	for _, e := range a.endpoints() {
		paths[strings.TrimSuffix(e.pattern, "{$}")] = map[string]any{"get": operation(&e)}
	}
	for _, e := range a.writes() {
		described := operation(&e.endpoint)
		described["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": e.body}}}
		paths[e.pattern] = map[string]any{"post": described}
	}
	a.json(w, map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]string{"title": "Sluice admin API", "version": "1"},
		"paths":    paths,
		"security": []map[string][]string{{"token": {}}, {}},
		"components": map[string]any{"securitySchemes": map[string]any{
			"token": map[string]string{"type": "http", "scheme": "bearer"},
		}},
	})
}

func operation(e *endpoint) map[string]any {
	parameters := make([]map[string]any, 0, len(e.parameters))
	for _, p := range e.parameters {
		parameters = append(parameters, map[string]any{
			"name": p.name, "in": p.in, "required": p.required, "description": p.description,
			"schema": map[string]string{"type": "string"},
		})
	}
	return map[string]any{
		"summary":    e.summary,
		"parameters": parameters,
		"responses": map[string]any{
			"200":     map[string]string{"description": "the answer"},
			"default": map[string]string{"description": "a problem document (RFC 9457)"},
		},
	}
}
