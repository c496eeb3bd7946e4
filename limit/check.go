package limit

import (
	"errors"
	"fmt"
)

// ErrAsks is in the errors about asks that a Store cannot decide because of what they
// are, so that another try would fail as well: the mistake is the caller's.
var ErrAsks = errors.New("malformed asks")

// CheckAsks returns an error, with [ErrAsks] in it, if a Store cannot decide a into
// d: if they differ in length, or if two asks are about one key, which it names. It
// does not allocate for up to 16 asks.
func CheckAsks(a []Ask, d []Decision) error {
	switch {
	case len(a) != len(d):
		return errLengths
	case len(a) > 16:
		return checkMany(a)
	}
	for i := range a {
		for j := range i {
			if a[i].Key == a[j].Key {
				return sharedKey(a[i].Key)
			}
		}
	}
	return nil
}

var errLengths = fmt.Errorf("limit: %w: asks and decisions differ in number", ErrAsks)

func checkMany(a []Ask) error {
	seen := make(map[string]bool, len(a))
	for i := range a {
		if seen[a[i].Key] {
			return sharedKey(a[i].Key)
		}
		seen[a[i].Key] = true
	}
	return nil
}

func sharedKey(key string) error {
	return fmt.Errorf("limit: %w: two asks about the key %.100q", ErrAsks, key)
}
