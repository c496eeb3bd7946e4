package rules

import (
	"reflect"
	"time"

	"github.com/throttle-go/throttle/load"
)

// Schema returns the JSON schema (draft 2020-12) of a rules file, which holds a
// [Set]: for an editor that checks the file as it is written, or to embed in the
// schema of a larger file. Encode it with encoding/json. Each call returns a new map,
// but maps within it are shared: do not change them. The schema accepts every file
// that [Parse] accepts, and some that Parse refuses: only Parse tells whether a file
// is valid.
func Schema() map[string]any {
	return schemaOf(reflect.TypeFor[Set]())
}

func ofType(kind string) map[string]any { return map[string]any{"type": kind} }

func anyOfSchemas(all ...any) map[string]any { return map[string]any{"anyOf": all} }

func oneOfWords(all ...string) map[string]any { return map[string]any{"enum": all} }

var atLeastOne = map[string]any{"type": "integer", "minimum": 1}

// oddSchemas are those of types with a form of their own.
var oddSchemas = map[reflect.Type]map[string]any{
	reflect.TypeFor[Cost]():          anyOfSchemas(atLeastOne, ofType("string")),
	reflect.TypeFor[Max]():           atLeastOne,
	reflect.TypeFor[Key]():           listOf(ofType("string")),
	reflect.TypeFor[Networks]():      listOf(ofType("string")),
	reflect.TypeFor[Value]():         anyOfSchemas(ofType("string"), ofType("number"), ofType("boolean")),
	reflect.TypeFor[Choice]():        oneOfWords(string(Share), string(Pass), string(Refuse)),
	reflect.TypeFor[Phase]():         oneOfWords(string(Before), string(After)),
	reflect.TypeFor[Client]():        oneOfWords(string(Known), string(Unknown)),
	reflect.TypeFor[load.Priority](): oneOfWords("low", "normal", "high", "critical"),
	reflect.TypeFor[time.Duration](): ofType("string"),
	reflect.TypeFor[time.Time]():     {"type": "string", "format": "date-time"},
}

// shortSchemas are the other forms of types that may also be objects.
var shortSchemas = map[reflect.Type]string{
	reflect.TypeFor[Limit](): "string", reflect.TypeFor[Entry](): "string", reflect.TypeFor[PairPattern](): "string",
	reflect.TypeFor[Shadow](): "boolean", reflect.TypeFor[Kill](): "boolean",
}

// requiredFields are those that an object must have.
var requiredFields = map[reflect.Type][]string{
	reflect.TypeFor[Set]():         {"rules"},
	reflect.TypeFor[Limit]():       {"count", "period"},
	reflect.TypeFor[Rule]():        {"name"},
	reflect.TypeFor[Override]():    {"key"},
	reflect.TypeFor[Proxies]():     {"trusted"},
	reflect.TypeFor[Switch]():      {"name"},
	reflect.TypeFor[Case]():        {"key"},
	reflect.TypeFor[Entry]():       {"entry"},
	reflect.TypeFor[PairPattern](): {"key"},
}

func schemaOf(t reflect.Type) map[string]any {
	if odd, ok := oddSchemas[t]; ok {
		return odd
	}
	if short, ok := shortSchemas[t]; ok {
		return anyOfSchemas(ofType(short), objectSchema(t))
	}
	switch t.Kind() {
	case reflect.Struct:
		return objectSchema(t)
	case reflect.Slice:
		return listOf(schemaOf(t.Elem()))
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem()), "minProperties": 1}
	case reflect.Bool:
		return ofType("boolean")
	case reflect.String:
		return ofType("string")
	}
	return ofType("integer")
}

// listOf is a list, or a single value.
func listOf(item map[string]any) map[string]any {
	return anyOfSchemas(item, map[string]any{"type": "array", "items": item})
}

func objectSchema(t reflect.Type) map[string]any {
	of := t
	if t == reflect.TypeFor[Limit]() {
		of = reflect.TypeFor[limitObject]()
	}
	index, names := tags(of)
	properties := make(map[string]any, len(index))
	for _, name := range names {
		properties[name] = schemaOf(of.FieldByIndex(index[name]).Type)
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if required := requiredFields[t]; required != nil {
		object["required"] = required
	}
	return object
}
