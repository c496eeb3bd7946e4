package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// maxBody bounds the body of a request.
const maxBody = 64 << 10

// receive reads the body of r, one JSON object without unknown fields, into v.
func receive(r *http.Request, v any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return failf(http.StatusUnsupportedMediaType, "the body must be JSON: send Content-Type: application/json")
	}
	in := json.NewDecoder(r.Body)
	in.DisallowUnknownFields()
	err := in.Decode(v)
	if err == nil {
		if _, more := in.Token(); more != io.EOF {
			err = errors.Join(errors.New("the body: there is more than one value"), more)
		}
	}
	switch large := (*http.MaxBytesError)(nil); {
	case errors.As(err, &large):
		return failf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return failf(http.StatusBadRequest, "%s", bodyFlaw(err, v))
	}
	return nil
}

// bodyFlaw says what is wrong with a body that was to be read into v, in words of JSON
// rather than of Go.
func bodyFlaw(err error, v any) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	unknown, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	switch {
	case errors.As(err, &kind):
		name := kind.Field[strings.LastIndexByte(kind.Field, '.')+1:] // behind the structs that it is embedded in
		if name == "" {
			name = "the body"
		}
		return fmt.Sprintf("%s: must be %s, not %s", name, shape(kind.Type), given(kind.Value))
	case errors.As(err, &syntax):
		return fmt.Sprintf("the body: not JSON, at byte %d: %v", syntax.Offset, err)
	case errors.Is(err, io.EOF):
		return "the body: empty; send a JSON object"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the body: ends before its JSON object does"
	case isUnknown:
		return "the body: unknown field " + unknown + "; the fields are " + words.Enumerate(namesOf(v))
	}
	return err.Error()
}

// shape is what a value of type t is in JSON.
func shape(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// given is a value that stands in the body, as package json calls it.
func given(value string) string {
	switch value {
	case "string":
		return "text"
	case "array":
		return "a list"
	case "bool":
		return "true or false"
	case "object":
		return "an object"
	case "number":
		return "a number"
	}
	return strings.TrimPrefix(value, "number ")
}

// namesOf are the names of the fields of what v points to.
func namesOf(v any) (all []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v).Elem()) {
		if name := f.Tag.Get("json"); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// several reads a list, or one value as a list of one.
func several[T any](data []byte) (all []T, err error) {
	if data[0] != '[' && string(data) != "null" {
		data = slices.Concat([]byte("["), data, []byte("]"))
	}
	err = json.Unmarshal(data, &all)
	return all, err
}

// parts are the values of a key: a list, or one text.
type parts []string

// UnmarshalJSON reads either.
func (p *parts) UnmarshalJSON(data []byte) (err error) {
	if *p, err = several[string](data); err != nil {
		return errors.New(`key: must be text, or a list of texts, as "key": ["acme"]`)
	}
	return nil
}

// instant is a time in JSON.
type instant struct{ time.Time }

// UnmarshalJSON reads a time as RFC 3339 has it.
func (t *instant) UnmarshalJSON(data []byte) error {
	if t.Time.UnmarshalJSON(data) != nil {
		return errors.New(`until: must be a time with its zone, as "until": "2026-11-20T15:04:05Z"`)
	}
	return nil
}
