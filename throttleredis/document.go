package throttleredis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
)

// Document is a rules.Shared in one key of Redis: changes of rules that were made
// by hand, shared by all instances, which poll it. The key does not expire; a
// fail-over may lose the latest change, which an instance that has it writes again.
// It is safe for concurrent use; the fields must not change after first use.
type Document struct {
	// Do sends commands by the client.
	Do Do
	// Name is the key. If empty, "throttle:overlay".
	Name string
}

const (
	luaLoad = "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1]) or ''"
	luaSwap = "#!lua\nlocal d = redis.call('GET', KEYS[1])\nif (d and d ~= '' and redis.sha1hex(d) or '') ~= ARGV[1] then return '' end\n" +
		"redis.call('SET', KEYS[1], ARGV[2])\nreturn redis.sha1hex(ARGV[2])"
	maxDocument = 1 << 20
)

func (d *Document) name() string {
	if d.Name == "" {
		return "throttle:overlay"
	}
	return d.Name
}

// run runs a script about the key.
func (d *Document) run(ctx context.Context, script string, args ...any) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("throttleredis: document %.100q: %w", d.name(), err)
	}
	v, err := d.Do.send(ctx, append([]any{"EVAL", script, "1", d.name()}, args...)...)
	if err != nil {
		return "", d.failed(err)
	}
	text, ok := textOf(v)
	if !ok {
		return "", fmt.Errorf("throttleredis: document %.100q: %w", d.name(), errReply)
	}
	return text, nil
}

// failed returns an error of the client as one about the document.
func (d *Document) failed(err error) error {
	if says(err, "WRONGTYPE") {
		err = fmt.Errorf("another program has written this key: delete it, or use another Name (%w)", err)
		return &documentError{d.name(), &Error{Err: err}}
	}
	return &documentError{d.name(), failed(err).(*Error)}
}

// documentError is an error of Redis about a Document.
type documentError struct {
	name string
	err  *Error
}

// Error returns the error in one line.
func (e *documentError) Error() string {
	return fmt.Sprintf("throttleredis: document %.100q: %s", e.name, e.err.text())
}

// Unwrap returns an [*Error].
func (e *documentError) Unwrap() error { return e.err }

// Unchanged reports whether it is certain that nothing was replaced.
func (e *documentError) Unchanged() bool { return !e.err.Charged }

// Load returns the document and its version, the SHA-1 of its content; both empty
// if there is none, or the key holds nothing, as where it was emptied by hand.
func (d *Document) Load(ctx context.Context) (version string, data []byte, err error) {
	text, err := d.run(ctx, luaLoad)
	if err != nil || text == "" {
		return "", nil, err
	}
	if len(text) > maxDocument {
		return "", nil, fmt.Errorf("throttleredis: document %.100q: longer than %d bytes", d.name(), maxDocument)
	}
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:]), []byte(text), nil
}

// Swap replaces the document if it still has the version old, which is empty if
// there is none yet, and returns the new version; not ok if it has another. After
// an error it is not known whether it was replaced, unless its method Unchanged
// reports that it was not.
func (d *Document) Swap(ctx context.Context, old string, data []byte) (version string, ok bool, err error) {
	if len(data) == 0 || len(data) > maxDocument {
		return "", false, fmt.Errorf("throttleredis: document %.100q: must be 1 to %d bytes", d.name(), maxDocument)
	}
	version, err = d.run(ctx, luaSwap, old, string(data))
	return version, version != "", err
}
