package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestEveryCallIsAnswered(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, 40); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "40 of 40 calls answered") {
		t.Errorf("it says %q, want all 40 answered", out.String())
	}
}
