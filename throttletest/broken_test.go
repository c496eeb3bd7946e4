package throttletest_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/store"
)

// Stores that are broken, each in one way.
var broken = map[string]func() store.Store{
	"forgets": func() store.Store {
		var mu sync.Mutex
		b, n := new(book), 0
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%100 == 0 {
				b = new(book)
			}
			return b.Take(ctx, a, d)
		})
	},
	"charges twice": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if ok, err := s.Take(ctx, a, d); !ok {
			return ok, err
		}
		return s.Take(ctx, a, d)
	}),
	"charges what it refuses": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		if err == nil && !ok {
			again := append([]limit.Ask(nil), a...)
			for i := range again {
				again[i].Debt = true
			}
			s.Take(ctx, again, make([]limit.Decision, len(a)))
		}
		return ok, err
	}),
	"splits pairs": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		all := true
		for i := range min(len(a), len(d)) {
			ok, err := s.Take(ctx, a[i:i+1], d[i:i+1])
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		return all, nil
	}),
	"reads, then writes": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		peek := append([]limit.Ask(nil), a...)
		for i := range peek {
			peek[i].N = 0
		}
		if _, err := s.Take(ctx, peek, d); err != nil {
			return false, err
		}
		runtime.Gosched()
		write := append([]limit.Ask(nil), a...)
		for i := range write {
			write[i].Debt = write[i].Debt || write[i].N <= d[i].Remaining
		}
		return s.Take(ctx, write, d)
	}),
	"takes one key twice": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if len(a) == 3 && a[0].Key == a[2].Key {
			a = a[:2]
			d = d[:2]
		}
		return s.Take(ctx, a, d)
	}),
	"takes no matter how many answers": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		n := min(len(a), len(d))
		return s.Take(ctx, a[:n], d[:n])
	}),
	"refuses nothing": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if len(a) == 0 {
			return false, errors.New("nothing asked")
		}
		return s.Take(ctx, a, d)
	}),
	"waits for ever": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		if ctx.Err() != nil {
			select {}
		}
		return s.Take(ctx, a, d)
	}),
	"lets large amounts through as errors": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		for i := range a {
			if a[i].N > 1<<53 {
				return false, errors.New("not an integer or out of range")
			}
		}
		return s.Take(ctx, a, d)
	}),
	"knows 32 bits": asks(func(a *limit.Ask) { a.N = int64(int32(a.N)) }),
	"turns the least number round": asks(func(a *limit.Ask) {
		if a.N == math.MinInt64 {
			a.N = math.MaxInt64
		}
	}),
	"knows no part":                   asks(func(a *limit.Ask) { a.Min = 0 }),
	"knows no credit":                 asks(func(a *limit.Ask) { a.Debt = false }),
	"takes nothing back":              asks(func(a *limit.Ask) { a.N = max(a.N, 0) }),
	"charges who peeks":               asks(func(a *limit.Ask) { a.N = max(a.N, 1) }),
	"knows no burst":                  asks(func(a *limit.Ask) { a.Limit.Burst = 0 }),
	"knows one kind":                  asks(func(a *limit.Ask) { a.Limit.Kind = limit.TokenBucket }),
	"knows no slots":                  asks(func(a *limit.Ask) { a.Limit.Slots = 0 }),
	"knows no zone":                   asks(func(a *limit.Ask) { a.Limit.Zone = nil }),
	"keeps limits apart":              asks(func(a *limit.Ask) { a.Key += a.Limit.String() }),
	"folds case":                      asks(func(a *limit.Ask) { a.Key = strings.ToLower(a.Key) }),
	"trims":                           asks(func(a *limit.Ask) { a.Key = strings.TrimSpace(a.Key) }),
	"cuts at 255":                     asks(func(a *limit.Ask) { a.Key = a.Key[:min(len(a.Key), 255+len(keyHead))] }),
	"cuts at 9999":                    asks(func(a *limit.Ask) { a.Key = a.Key[:min(len(a.Key), 9_999+len(keyHead))] }),
	"ends at a zero":                  asks(func(a *limit.Ask) { a.Key, _, _ = strings.Cut(a.Key, "\x00") }),
	"wants UTF-8":                     asks(func(a *limit.Ask) { a.Key = strings.ToValidUTF8(a.Key, "\ufffd") }),
	"rounds waits up":                 answers(func(d *limit.Decision) { d.RetryAfter = upTo(d.RetryAfter, time.Millisecond) }),
	"rounds resets down":              answers(func(d *limit.Decision) { d.ResetAfter -= d.ResetAfter % time.Second }),
	"says too late a time":            answers(func(d *limit.Decision) { d.At = d.At.Add(40 * time.Microsecond) }),
	"says no time":                    answers(func(d *limit.Decision) { d.At = time.Time{} }),
	"says nothing of what is charged": answers(func(d *limit.Decision) { d.N = 0 }),
	"leaves refusals out": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		own := make([]limit.Decision, len(d))
		ok, err := s.Take(ctx, a, own)
		if ok {
			copy(d, own)
		}
		return ok, err
	}),
	"changes the question": wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		for i := range a {
			a[i].Key = ""
		}
		return ok, err
	}),
	"decides by the millisecond": func() store.Store {
		b := &book{now: func() time.Time { return time.Now().Truncate(time.Millisecond) }}
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			ok, err := b.Take(ctx, a, d)
			for i := range d {
				d[i].At = time.Now()
			}
			return ok, err
		})
	},
	"has a clock that stands": func() store.Store {
		began := time.Now()
		return &book{now: func() time.Time { return began }}
	},
	"keeps whole microseconds": kept(func(s limit.State, a limit.Ask) limit.State {
		if a.Limit.Kind == limit.TokenBucket {
			s.N = 0
		}
		return s
	}),
	"keeps seconds as floating point": kept(func(s limit.State, _ limit.Ask) limit.State {
		s.T = int64(float32(s.T/1e6)) * 1e6
		return s
	}),
	"keeps no window before this one": kept(func(s limit.State, _ limit.Ask) limit.State {
		s.P = 0
		return s
	}),
	"expires in whole seconds": expires(func(_ limit.Ask, d limit.Decision) time.Duration {
		return d.ResetAfter.Truncate(time.Second)
	}),
	"expires after a period": expires(func(a limit.Ask, d limit.Decision) time.Duration {
		return min(a.Limit.Period, d.ResetAfter)
	}),
}

// expires is a store that forgets keys after some time.
func expires(ttl func(limit.Ask, limit.Decision) time.Duration) func() store.Store {
	return func() store.Store {
		var mu sync.Mutex
		b, gone := new(book), map[string]time.Time{}
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			for i := range a {
				if end, ok := gone[a[i].Key]; ok && !time.Now().Before(end) {
					*b.page(a[i]) = page{}
				}
			}
			ok, err := b.Take(ctx, a, d)
			for i := range min(len(a), len(d)) {
				if t := ttl(a[i], d[i]); d[i].N != 0 && t > 0 {
					gone[a[i].Key] = d[i].At.Add(t)
				}
			}
			return ok, err
		})
	}
}

// keyHead is what the keys of a suite begin with.
const keyHead = "throttletest/0123456789abcdef/"

func upTo(d, unit time.Duration) time.Duration {
	if d == limit.Never {
		return d
	}
	return (d + unit - 1) / unit * unit
}

func wrapped(f func(store.Store, context.Context, []limit.Ask, []limit.Decision) (bool, error)) func() store.Store {
	return func() store.Store {
		s := new(book)
		return store.Func(func(ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
			return f(s, ctx, a, d)
		})
	}
}

// asks is a store that is asked something else.
func asks(f func(*limit.Ask)) func() store.Store {
	return wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		a = append([]limit.Ask(nil), a...)
		for i := range a {
			f(&a[i])
		}
		return s.Take(ctx, a, d)
	})
}

// answers is a store of which the answers are changed.
func answers(f func(*limit.Decision)) func() store.Store {
	return wrapped(func(s store.Store, ctx context.Context, a []limit.Ask, d []limit.Decision) (bool, error) {
		ok, err := s.Take(ctx, a, d)
		for i := range d {
			f(&d[i])
		}
		return ok, err
	})
}

// kept is a store of which the states are changed.
func kept(f func(limit.State, limit.Ask) limit.State) func() store.Store {
	return func() store.Store { return &book{keep: f} }
}
