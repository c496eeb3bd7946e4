package integration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/throttleredis"
)

// A laterVersion is a Do of a process whose values have another format: their
// first byte, or the seventh of a log, is another.
type laterVersion struct {
	do  throttleredis.Do
	sha atomic.Pointer[string]
}

func (v *laterVersion) Do(ctx context.Context, args ...any) (any, error) {
	const ours, theirs = "local FORMAT = 0 ", "local FORMAT = 8 "
	if args[0] == "EVAL" {
		text := args[1].(string)
		if n := strings.Count(text, ours); n != 1 {
			return nil, fmt.Errorf("the script has %q %d times, want once", ours, n)
		}
		loaded, err := v.do(ctx, "SCRIPT", "LOAD", strings.Replace(text, ours, theirs, 1))
		if err != nil {
			return nil, err
		}
		sha := loaded.(string)
		v.sha.Store(&sha)
	}
	sha := v.sha.Load()
	if sha == nil {
		return nil, errors.New("NOSCRIPT it was not seen yet")
	}
	args = append([]any{"EVALSHA", *sha}, args[2:]...)
	keys, _ := strconv.Atoi(args[2].(string))
	for i := range args[4+keys:] {
		ask := []byte(args[4+keys+i].(string))
		ask[ask[2]-1] += 8
		args[4+keys+i] = string(ask)
	}
	return v.do(ctx, args...)
}

// TestRedisFormats: of two versions with other formats neither misreads what the
// other has written, nor writes over it; each goes on with its own.
func TestRedisFormats(t *testing.T) {
	do := goRedis(t, rig.SharedRedis(t).Addr)
	later := &laterVersion{do: do}
	now, then := &throttleredis.Store{Do: do, Prefix: t.Name()}, &throttleredis.Store{Do: later.Do, Prefix: t.Name()}
	for kind := limit.TokenBucket; kind <= limit.CalendarWindow; kind++ {
		for i, pair := range [][2]*throttleredis.Store{{now, then}, {then, now}} {
			first, second := pair[0], pair[1]
			ask := limit.Ask{Key: fmt.Sprint(kind, i), Limit: limit.Limit{Kind: kind, Count: 10, Period: 12 * limit.Month}, N: 3}
			redisTake(t, first, ask)
			for _, n := range []int64{0, 1, -1} {
				asks := []limit.Ask{ask, {Key: "other " + ask.Key, Limit: ask.Limit, N: 1}}
				asks[0].N = n
				for k := range asks {
					_, err := second.Take(t.Context(), asks[:k+1], make([]limit.Decision, k+1))
					var e *throttleredis.Error
					if !errors.As(err, &e) || e.Charged || !strings.Contains(err.Error(), "the format of another version") || !strings.Contains(err.Error(), strconv.Quote(ask.Key)) {
						t.Errorf("%v, Take(%+v) of what another version has written: error %v", kind, asks[:k+1], err)
					}
				}
			}
			if d := redisTake(t, first, ask); d.Remaining != 4 {
				t.Errorf("%v: %d remain of 10 after 3 and 3, with another version between", kind, d.Remaining)
			}
		}
	}
}

// earlierFence is a fence as earlier versions wrote it.
func earlierFence(t *testing.T, n *rig.Node, since int64, announced string) string {
	t.Helper()
	_, id, _ := strings.Cut(n.Must(t, "INFO", "replication"), "master_replid:")
	b := make([]byte, 7)
	for i := range b {
		b[i] = byte(since >> (8 * i))
	}
	return string(b) + "master_replid:" + id[:40] + processOf(t, n) + announced
}

// TestRedisEarlierFences: the fence of an earlier version is understood, and one
// of this version begins as those did, so that earlier ones understand it.
func TestRedisEarlierFences(t *testing.T) {
	node := rig.Redis(t)
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	do := goRedis(t, node.Addr)
	stale := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		since int64
		other bool   // another process has written it
		more  string // the process that it announces
		want  int64
	}{
		"as it was":             {want: 6},
		"announced":             {more: stale, want: 6},
		"after a fail-over":     {since: time.Now().UnixMicro(), want: 0},
		"by another":            {other: true, want: 0},
		"by another, announced": {other: true, more: processOf(t, node), want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &throttleredis.Store{Do: do, Prefix: name}
			redisTake(t, s, limit.Ask{Key: "a", Limit: ten, N: 4})
			fence := earlierFence(t, node, c.since, c.more)
			if c.other {
				fence = fence[:7] + "master_replid:" + stale + stale + c.more
			}
			node.Must(t, "SET", name+"{0}", fence)
			for _, s := range []*throttleredis.Store{{Do: do, Prefix: name}, s} {
				if n, _ := redisDrain(t, s, "a", ten); n != c.want {
					t.Errorf("with the fence %q %d pass, want %d", fence, n, c.want)
				}
				c.want = 0
			}
			if got := node.Must(t, "GET", name+"{0}"); got[7:101] != earlierFence(t, node, 0, "")[7:] {
				t.Errorf("the fence is %q, want it to begin as that of an earlier version", got)
			}
		})
	}
}

// TestRedisSpoiltFence: a fence that is none is refused, in words that say what to
// do, and kept.
func TestRedisSpoiltFence(t *testing.T) {
	node := rig.Redis(t)
	ten := limit.Limit{Count: 10, Period: 12 * limit.Month}
	for _, l := range []limit.Limit{ten, {Kind: limit.FixedWindow, Count: 10, Period: ten.Period}} {
		for what, write := range redisSpoil("fence{0}") {
			node.Must(t, "FLUSHALL")
			s := &throttleredis.Store{Do: goRedis(t, node.Addr), Prefix: "fence"}
			redisTake(t, s, limit.Ask{Key: "a", Limit: l, N: 1})
			node.Must(t, "DEL", "fence{0}")
			node.Must(t, write...)
			before := node.Must(t, "DUMP", "fence{0}")
			rig.Until(t, "the fence is looked at", func() error {
				_, err := s.Take(t.Context(), []limit.Ask{{Key: "a", Limit: l, N: 1}}, make([]limit.Decision, 1))
				var e *throttleredis.Error
				if errors.As(err, &e) && !e.Charged && strings.Contains(err.Error(), "fence{0}") && strings.Contains(err.Error(), "delete it") {
					return nil
				}
				return fmt.Errorf("with %s in it: error %v, want one that names it, and nothing charged", what, err)
			})
			if after := node.Must(t, "DUMP", "fence{0}"); after != before {
				t.Errorf("a fence that holds %s was overwritten", what)
			}
		}
	}
}
