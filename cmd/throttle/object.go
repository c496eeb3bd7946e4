package main

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object being written.
type object struct {
	text bytes.Buffer
	err  error
}

// put adds a key with its value.
func (o *object) put(key string, value any) {
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

// close ends the object and returns its text.
func (o *object) close() ([]byte, error) {
	o.text.WriteByte('}')
	return o.text.Bytes(), o.err
}
