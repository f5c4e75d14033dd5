package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
)

// TestSchemaAndReference holds the two texts that are made from the structs.
func TestSchemaAndReference(t *testing.T) {
	for file, made := range map[string]func([]config.Kind) []byte{"testdata/schema.json": config.Schema, "testdata/reference.md": config.Reference} {
		got := made(testKinds())
		if again := made(testKinds()); !bytes.Equal(got, again) {
			t.Errorf("%s: the order is not stable", file)
		}
		if *update {
			if err := os.WriteFile(file, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Error(diff)
		}
		for _, later := range []string{"tracing", "release", "history", "soon"} {
			if bytes.Contains(got, []byte(`"`+later+`"`)) || bytes.Contains(got, []byte("`"+later+"`")) {
				t.Errorf("%s has %s, which is not supported yet", file, later)
			}
		}
	}
}

// TestSchemaIsOne holds that the schema is JSON whose references lead somewhere
// and whose keys are those of JSON Schema.
func TestSchemaIsOne(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(config.Schema(testKinds()), &schema); err != nil {
		t.Fatal(err)
	}
	if schema["$schema"] != "https://json-schema.org/draft/2020-12/schema" || schema["type"] != "object" {
		t.Error(schema["$schema"], schema["type"])
	}
	definitions := schema["$defs"].(map[string]any)
	words := strings.Fields("$schema $defs $ref title type description properties additionalProperties required anyOf enum const items default pattern minProperties maxProperties")
	var walk func(value any, properties bool)
	walk = func(value any, properties bool) {
		switch v := value.(type) {
		case []any:
			for _, item := range v {
				walk(item, false)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && !properties {
				if definitions[strings.TrimPrefix(ref, "#/$defs/")] == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for key, inner := range v {
				if !properties && !slices.Contains(words, key) {
					t.Errorf("%s is no key of a schema", key)
				}
				if key != "default" || properties {
					walk(inner, !properties && (key == "properties" || key == "$defs"))
				}
			}
		}
	}
	walk(schema, false)
}

// TestDescribed holds that every key of a document has a description.
func TestDescribed(t *testing.T) {
	for line := range strings.SplitSeq(string(config.Reference(nil)), "\n") {
		if strings.HasPrefix(line, "| `") && strings.HasSuffix(line, "|  |") {
			t.Errorf("no description: %s", line)
		}
	}
}
