package stores

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// Finder is a store that looks for settings of its server that would break limits.
type Finder interface {
	Check(ctx context.Context) error
}

// Finder returns the store as one; nil if it is none. It is for the fields of an
// Absence, which wraps the store.
func (n *Named) Finder() Finder {
	f, _ := n.Store.(Finder)
	return f
}

// find asks the Finder until it was answered, and logs each of its findings once.
func (a *Absence) find(ctx context.Context) {
	if a.Finder == nil || a.found {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, everyLook)
	defer cancel()
	all, answered := findings(a.Finder.Check(ctx))
	a.found = answered
	for _, line := range all {
		a.mu.Lock()
		a.say(func() {
			a.Log.Warn("the store has a setting that breaks limits, or slows them down", "store", a.Name, "err", line)
		})
		a.mu.Unlock()
	}
	a.write()
}

// aboutPostgres are what a finding about PostgreSQL is one of.
var aboutPostgres = []error{
	throttlesql.ErrLayout, throttlesql.ErrReadOnly, throttlesql.ErrPrivilege, throttlesql.ErrIsolation,
	throttlesql.ErrVersion, throttlesql.ErrVacuum, throttlesql.ErrFence,
}

// findings returns what a Check has found, a line each; answered is false if it could
// not ask.
func findings(err error) (all []string, answered bool) {
	switch ofRedis := (*throttleredis.Error)(nil); {
	case err == nil:
		return nil, true
	case slices.ContainsFunc(aboutPostgres, func(kind error) bool { return errors.Is(err, kind) }):
	case errors.As(err, &ofRedis) || !strings.HasPrefix(err.Error(), "throttleredis: "):
		return nil, false
	}
	return strings.Split(err.Error(), "\n"), true
}
