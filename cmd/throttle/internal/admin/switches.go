package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/throttle-go/throttle/rules"
)

// toggle is GET /api/v1/switches/NAME?key=KEY: the value that programs see.
func (s *server) toggle(w http.ResponseWriter, r *http.Request) error {
	set, err := s.set()
	if err != nil {
		return err
	}
	named := r.PathValue("name")
	if !slices.ContainsFunc(set.Switches, func(x rules.Switch) bool { return x.Name == named }) {
		return failf(http.StatusNotFound, "switch %.64q: there is none of that name", named)
	}
	value := s.c.Rules.Load().Switch(named, r.FormValue("key"), time.Now())
	reply(w, map[string]any{"name": named, "value": value, "on": value.On()})
	return nil
}

// scalar is a value in JSON: text, a number, true or false.
type scalar string

// UnmarshalJSON reads one.
func (v *scalar) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '{', '[', 'n':
		return errors.New("value: must be text, a number, true or false")
	case '"':
		return json.Unmarshal(data, (*string)(v))
	}
	*v = scalar(data)
	return nil
}

// setSwitch is PUT and DELETE /api/v1/switches/NAME: its value for a key or
// pattern, "*" for all. Without an end it stays.
func (s *server) setSwitch(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Key   string `json:"key"`
		Value scalar `json:"value"`
		lasting
	}
	if err := receive(r, &ask); err != nil {
		return err
	}
	remove := r.Method == http.MethodDelete
	var until time.Time
	if !remove && (ask.For != "" || !ask.Until.IsZero()) {
		var err error
		if until, err = ask.ends(time.Now()); err != nil {
			return err
		}
	}
	switch {
	case ask.Key == "":
		return failf(http.StatusBadRequest, `key: is missing; write a key, a pattern, or "*" for all`)
	case ask.Value == "" && !remove:
		return failf(http.StatusBadRequest, `value: is missing; write "true", or any text`)
	}
	named := r.PathValue("name")
	return s.audited(w, r, name(remove, "switch"), named, &ask.reason, func(ctx context.Context) (any, error) {
		c := rules.Case{Key: ask.Key, Value: rules.Value(ask.Value), Note: ask.note(until)}
		if remove {
			c.Note = ask.over()
		}
		err := s.edit(ctx, ask.note(until), func(o *rules.Overlay) error {
			had := slices.ContainsFunc(o.Switches[named], func(x rules.Case) bool { return x.Key == ask.Key })
			if remove && !had {
				return failf(http.StatusNotFound, "the overlay has no such case of switch %.64q", named)
			}
			o.PutCase(named, c)
			return nil
		})
		return ending(map[string]any{"name": named, "key": c.Key, "value": c.Value}, until), err
	})
}
