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
		parameters := make([]map[string]any, 0, len(e.parameters))
		for _, p := range e.parameters {
			parameters = append(parameters, map[string]any{
				"name": p.name, "in": p.in, "required": p.required, "description": p.description,
				"schema": map[string]string{"type": "string"},
			})
		}
		paths[strings.TrimSuffix(e.pattern, "{$}")] = map[string]any{"get": map[string]any{
			"summary":    e.summary,
			"parameters": parameters,
			"responses": map[string]any{
				"200":     map[string]string{"description": "the answer"},
				"default": map[string]string{"description": "a problem document (RFC 9457)"},
			},
		}}
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
