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

// find asks the Finder until it was answered, and logs each of its findings once. It asks
// again after a fail-over of Redis: keys of a slot begin used up when the slot is first
// asked for after it, so that is to be soon.
func (a *Absence) find(ctx context.Context) {
	if a.Finder == nil || a.found && a.replaced == replaced(a.Finder) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, everyLook)
	defer cancel()
	all, answered := findings(a.Finder.Check(ctx))
	a.found, a.replaced = answered, replaced(a.Finder) // which the Check itself has noticed
	for _, line := range all {
		a.mu.Lock()
		a.say(func() {
			a.Log.Warn("the store has a setting that breaks limits, or slows them down", "store", a.Name, "err", line)
		})
		a.mu.Unlock()
	}
	a.write()
}

// replaced returns how often slots were found with another server of Redis.
func replaced(f Finder) int64 {
	if s, ok := f.(interface{ Stats() throttleredis.Stats }); ok {
		return s.Stats().Replaced
	}
	return 0
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
