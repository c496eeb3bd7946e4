package rules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// flawIn is what a value breaks of a schema, as far as Schema uses the language.
func flawIn(path string, schema map[string]any, v any) string {
	if all, ok := schema["anyOf"].([]any); ok {
		var flaws []string
		for _, s := range all {
			flaw := flawIn(path, s.(map[string]any), v)
			if flaw == "" {
				return ""
			}
			flaws = append(flaws, flaw)
		}
		return strings.Join(flaws, ", or ")
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		return fmt.Sprintf("%s: %v is none of %v", path, v, words)
	}
	switch kind := schema["type"]; v := v.(type) {
	case map[string]any:
		if kind != "object" {
			return path + ": an object"
		}
		return flawInObject(path, schema, v)
	case []any:
		if kind != "array" {
			return path + ": a list"
		}
		for i := range v {
			if flaw := flawIn(fmt.Sprintf("%s[%d]", path, i), schema["items"].(map[string]any), v[i]); flaw != "" {
				return flaw
			}
		}
	default:
		of := map[string]string{"string": "string", "float64": "number", "bool": "boolean"}[fmt.Sprintf("%T", v)]
		if kind != nil && kind != of && (kind != "integer" || of != "number") {
			return fmt.Sprintf("%s: %v is no %v", path, v, kind)
		}
	}
	return ""
}

func flawInObject(path string, schema, v map[string]any) string {
	properties, _ := schema["properties"].(map[string]any)
	other, _ := schema["additionalProperties"].(map[string]any)
	for name, x := range v {
		s, ok := properties[name].(map[string]any)
		if !ok {
			s = other
		}
		if s == nil {
			return path + ": unknown " + name
		}
		if flaw := flawIn(path+"."+name, s, x); flaw != "" {
			return flaw
		}
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return path + ": no " + name.(string)
		}
	}
	return ""
}

// The schema accepts what Parse accepts, and refuses what has other fields or types.
func TestSchema(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(textOf(t, rules.Schema())), &schema); err != nil {
		t.Fatal(err)
	}
	flaw := func(text string) string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return err.Error()
		}
		return flawIn("", schema, v)
	}
	docs, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(docs, -1) {
		if what := flaw(string(block[1])); what != "" {
			t.Errorf("the schema refuses an example of docs/rules.md: %s\n%s", what, block[1])
		}
	}
	refused := 0
	for _, x := range badFiles {
		if what := flaw(x.text); what != "" {
			refused++
		} else if strings.Contains(x.want, "unknown field") || strings.Contains(x.want, "must be true or false") {
			t.Errorf("the schema accepts %.100s, and Parse says %s", x.text, x.want)
		}
	}
	if refused < len(badFiles)/4 {
		t.Errorf("the schema refuses %d of %d bad files", refused, len(badFiles))
	}
}
