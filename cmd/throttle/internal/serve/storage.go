package serve

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/operate"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleredis"
	"github.com/throttle-go/throttle/throttlesql"
)

// fallbacks are the words of store.away.
var fallbacks = map[string]store.Fallback{"": store.FallbackLocal, "share": store.FallbackLocal, "pass": store.FallbackAllow, "refuse": store.FallbackDeny}

// storage is the store and what stands in front of it.
type storage struct {
	store.Store
	name   string
	remote store.Store  // in a network, without what is in front of it
	guard  *store.Guard // nil: it is in this process
	// absence says when it goes and when it is back; nil: it is in this process.
	absence *stores.Absence
	leases  *store.Leases // nil: none
	memory  *memory.Store // nil: it is in a network
	path    string        // of the snapshot; empty: none
	missing []table       // that could not be created at the start
	close   func()
}

// table is what create: true creates.
type table interface {
	Create(ctx context.Context) error
}

// creator is a Finder of a database that was away at the start: it creates what is
// missing before it looks.
type creator struct {
	missing []table
	stores.Finder
}

// Check returns an error as long as the tables cannot be created.
func (c creator) Check(ctx context.Context) error {
	for _, t := range c.missing {
		if err := t.Create(ctx); err != nil {
			return err
		}
	}
	return c.Finder.Check(ctx)
}

// openStore opens the store of a file. One in a network need not be there yet.
func openStore(ctx context.Context, f *config.File, log *slog.Logger) (*storage, error) {
	s := f.Store
	if s == nil {
		s = &config.Store{URL: "memory:"}
	}
	o := stores.Options{
		Command: "serve", Timeout: createWithin, Deadline: cmp.Or(s.Deadline, config.DefaultDeadline),
		InProcess: true, Create: s.Create,
	}
	named, err := stores.Open(ctx, string(s.URL), o)
	if failed := exit.Failure(""); errors.As(err, &failed) { // it is away, or may not create its table
		log.Error("the store is not there; going on without it", "err", err)
		o.Create = false
		named, err = stores.Open(ctx, string(s.URL), o)
	}
	if err != nil {
		return nil, f.Fail("store.url", "%s", strings.TrimPrefix(err.Error(), "serve: -store "))
	}
	all := &storage{Store: named.Store, name: named.Name, close: named.Close}
	if t, ok := named.Store.(table); ok && s.Create && !o.Create {
		all.missing = append(all.missing, t)
	}
	if !named.Remote {
		all.memory, _ = named.Store.(*memory.Store)
		all.path = string(s.Snapshot)
		all.restore(log)
		return all, nil
	}
	all.remote = named.Store
	all.guard = &store.Guard{
		Store: named.Store, Fallback: fallbacks[s.Away], Instances: s.Instances, Timeout: s.Deadline,
	}
	all.absence = &stores.Absence{Log: log, Name: named.Name, Away: cmp.Or(s.Away, "share"), Guard: all.guard, Finder: named.Finder()}
	all.guard.OnState = all.absence.OnState
	all.Store = all.guard
	if s.Lease > 0 {
		all.leases = &store.Leases{Store: all.guard, Life: s.Lease}
		all.Store = leased{all.leases, all.guard}
	}
	return all, nil
}

// leased decides by leases, or without them what they cannot: they return an error where
// two answers in a row come too late for what they grant to be used, as in a process that
// gets no processor for so long. Each request would be answered 503 then.
type leased struct {
	leases *store.Leases
	guard  *store.Guard
}

// Take decides a into d. What late answers granted stays charged.
func (l leased) Take(ctx context.Context, a []limit.Ask, d []limit.Decision) (ok bool, err error) {
	ok, err = l.leases.Take(ctx, a, d)
	gives := func(ask limit.Ask) bool { return ask.N < 0 || ask.Debt } // which may have been done
	if err == nil || ctx.Err() != nil || errors.Is(err, limit.ErrAsks) || slices.ContainsFunc(a, gives) {
		return ok, err
	}
	return l.guard.Take(ctx, a, d)
}

// createWithin bounds the creation of a table, so that a database that hangs holds up no
// start.
const createWithin = 5 * time.Second

// shared is the document of the overlay; nil if there is none.
func (s *storage) shared(ctx context.Context, f *config.File, log *slog.Logger) rules.Shared {
	switch {
	case f.Rules == nil || f.Rules.Overlay == "":
		return nil
	case f.Rules.Overlay != config.InStore:
		return &rules.File{Path: string(f.Rules.Overlay)}
	}
	switch remote := s.remote.(type) {
	case *throttleredis.Store:
		return &throttleredis.Document{Do: remote.Do, Name: overlayKey(remote.Prefix)}
	case *throttlesql.Store:
		d := &throttlesql.Document{Query: remote.Query, Name: cmp.Or(remote.Table, "overlay")}
		if f.Store.Create {
			ctx, cancel := context.WithTimeout(ctx, createWithin)
			defer cancel()
			if err := d.Create(ctx); err != nil {
				log.Error("the table of the overlay could not be created", "err", err)
				s.missing = append(s.missing, d)
			}
		}
		return d
	}
	return nil
}

// topKeys is the document of the top keys of all instances, where they share an
// overlay in the store; nil if there is none.
func (s *storage) topKeys(f *config.File) rules.Shared {
	if f.Rules == nil || f.Rules.Overlay != config.InStore {
		return nil
	}
	switch remote := s.remote.(type) {
	case *throttleredis.Store:
		return &throttleredis.Document{Do: remote.Do, Name: cmp.Or(overlayKey(remote.Prefix), "throttle:overlay") + ":top"}
	case *throttlesql.Store: // beside the overlay, in its table
		return &throttlesql.Document{Query: remote.Query, Name: cmp.Or(remote.Table, "overlay") + ":top"}
	}
	return nil
}

// overlayKey is the key of the overlay in a Redis that others use too.
func overlayKey(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix + "overlay"
}

// look asks a store in a network for nothing, so that its absence is said at the
// start and not with the first request, and then says when it is back, until ctx ends.
func (s *storage) look(ctx context.Context) {
	if s.guard == nil {
		return
	}
	stores.Probe(ctx, s)
	if len(s.missing) > 0 {
		s.absence.Finder = creator{s.missing, s.absence.Finder}
	}
	s.absence.Run(ctx)
}

func (s *storage) restore(log *slog.Logger) {
	if s.path == "" {
		return
	}
	found, err := operate.Restore(s.path, s.memory)
	switch {
	case err != nil:
		log.Error("the limits begin unused", "err", err)
	case found:
		log.Info("what was counted before goes on", "snapshot", s.path)
	}
}

// save keeps what was counted.
func (s *storage) save(context.Context) error {
	if s.path == "" {
		return nil
	}
	return operate.Save(s.path, s.memory)
}
