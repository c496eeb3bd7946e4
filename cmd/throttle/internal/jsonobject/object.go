package jsonobject

import (
	"bytes"
	"encoding/json"
)

// Object is a JSON object being written.
type Object struct {
	text bytes.Buffer
	err  error
}

// Put adds a key with its value.
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

// Close ends the object and returns its text.
func (o *Object) Close() ([]byte, error) {
	o.text.WriteByte('}')
	return o.text.Bytes(), o.err
}
