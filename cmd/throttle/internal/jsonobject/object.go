// Package jsonobject writes JSON objects with their keys in a given order.
package jsonobject

import (
	"bytes"
	"encoding/json"
)

// An Object is a JSON object being written. The zero Object has no keys yet.
type Object struct {
	text bytes.Buffer
	err  error
}

// Put adds a key, which is written as it is, and its value.
func (o *Object) Put(key string, value any) {
	text, err := json.Marshal(value)
	if err != nil && o.err == nil {
		o.err = err
	}
	sign := byte(',')
	if o.text.Len() == 0 {
		sign = '{'
	}
	o.text.WriteByte(sign)
	o.text.WriteString(`"` + key + `":`)
	o.text.Write(text)
}

// Close ends an object that has keys and returns its text, or the first error.
func (o *Object) Close() ([]byte, error) {
	o.text.WriteByte('}')
	return o.text.Bytes(), o.err
}
