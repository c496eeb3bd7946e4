package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// maxSecret bounds the bytes of what ${NAME} and ${file:PATH} stand for.
const maxSecret = 64 << 10

// expand replaces ${NAME} and ${file:PATH} in the texts of a tree, but not in the
// names of fields. $${ is ${ itself.
func (f *files) expand(name string, n *tree.Node) {
	for _, item := range n.Items {
		f.expand(name, item)
	}
	for _, field := range n.Fields {
		f.expand(name, field.Value)
	}
	if n.Kind != tree.Text || n.Raw != "" || !strings.Contains(n.Text, "${") {
		return // or an alias led here before
	}
	text, what := f.replace(name, n.Text)
	if what != "" {
		f.fail(name, n.Line, n.Column, "%s", what)
		return
	}
	n.Raw, n.Text, n.Secret = n.Text, text, true
}

// replace returns text with what its ${...} stand for, or what is wrong.
func (f *files) replace(file, text string) (replaced, what string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), ""
		}
		if escaped, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(escaped + "${")
			text = rest
			continue
		}
		name, rest, closed := strings.Cut(rest, "}")
		if !closed {
			return "", fmt.Sprintf("%s: ${ without }; write ${NAME}, or $${ for the text itself", words.Quote(text))
		}
		value, what := f.value(file, name)
		if what != "" {
			return "", what
		}
		b.WriteString(before + value)
		text = rest
	}
}

// value is what NAME or file:PATH stands for, or what is wrong with it.
func (f *files) value(file, name string) (value, what string) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		path = beside(file, path)
		f.secrets = append(f.secrets, path)
		return secretFile(path, name)
	}
	if !isVariable(name) {
		return "", fmt.Sprintf("%s: the name of a variable is letters, digits and '_'; for a file write ${file:PATH}", words.Quote("${"+name+"}"))
	}
	value, ok := f.lookup(name)
	switch {
	case !ok:
		return "", fmt.Sprintf("${%s}: the variable is not set", name)
	case len(value) > maxSecret:
		return "", fmt.Sprintf("${%s}: longer than 64 KiB", name)
	}
	return value, ""
}

// secretFile reads a file without the line break at its end.
func secretFile(path, name string) (value, what string) {
	info, err := os.Stat(path) // opening a pipe would wait for its other end
	if err == nil && !info.Mode().IsRegular() {
		return "", fmt.Sprintf("${%s}: not a file", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Sprintf("${%s}: %v", name, err)
	}
	defer f.Close() // only read from
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Sprintf("${%s}: %v", name, err)
	case len(data) > maxSecret:
		return "", fmt.Sprintf("${%s}: longer than 64 KiB", name)
	}
	return strings.TrimRight(string(data), "\r\n"), ""
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// beside returns a path as it is from where file is.
func beside(file, path string) string {
	if path == "" || filepath.IsAbs(path) || file == "-" {
		return path
	}
	return filepath.Join(filepath.Dir(file), path)
}
