package serve

import (
	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
)

// checkWrites refuses files that the program could not write, or should not.
func checkWrites(f *config.File) error {
	if s := f.Store; s != nil && s.Snapshot != "" && operate.Foreign(string(s.Snapshot)) {
		return f.Fail("store.snapshot", "%s has something else in it than a snapshot, which would replace it; name another file, or remove this one", s.Snapshot)
	}
	return nil
}
