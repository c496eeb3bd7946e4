package throttlepage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

const (
	// fresh is how old a look may be that is shown again, so that many readers do
	// not take the locks of the Throttles more often than one does.
	fresh = 250 * time.Millisecond
	// longestName is how much of a name is shown, in runes.
	longestName = 200
	// mostQueues is how many queues of a Throttle are listed.
	mostQueues = 10
)

// look is what is seen at one time.
type look struct {
	At    time.Time `json:"at"`
	Parts []part    `json:"parts"`
	html  string    // of the content
}

// part is a Throttle or a Group.
type part struct {
	Name    string `json:"name"`
	Group   bool   `json:"group"`
	Members int    `json:"members"` // of a Group; 1
	Calls   *calls `json:"calls,omitempty"`
	Limits  []row  `json:"limits"`
	More    int    `json:"more"` // limits that are known not to be listed
}

// calls are the numbers of a Counter.
type calls struct {
	Tries     int64   `json:"tries"`
	Served    int64   `json:"served"`
	Throttled int64   `json:"throttled"`
	Failed    int64   `json:"failed"`
	Ignored   int64   `json:"ignored"`
	GaveUp    int64   `json:"gave_up"`
	Waited    float64 `json:"waited_seconds"` // all tries together
}

// row is one limit.
type row struct {
	Name        string     `json:"name,omitempty"` // of the member of a Group
	Scope       string     `json:"scope,omitempty"`
	Rate        float64    `json:"rate_per_second"` // 0: not paced
	Source      string     `json:"rate_source"`
	Until       *time.Time `json:"not_before,omitempty"`
	InFlight    int        `json:"in_flight"`
	MaxInFlight int        `json:"max_in_flight"` // 0: no bound
	Waiting     int        `json:"waiting"`
	Throttled   *time.Time `json:"last_throttled,omitempty"`
	Limit       *int64     `json:"limit,omitempty"`
	Remaining   *int64     `json:"remaining,omitempty"`
	Own         *own       `json:"own,omitempty"` // absent for a scope
	Explained   explained  `json:"explained"`
}

// own is what is known of the limit of a Throttle, and not of a scope.
type own struct {
	Resting    int      `json:"resting"`
	NextRetry  *float64 `json:"next_retry_seconds,omitempty"`
	Oldest     *float64 `json:"oldest_seconds,omitempty"`
	Next       *float64 `json:"new_call_seconds,omitempty"` // absent: unknown
	Queues     []queue  `json:"queues,omitempty"`
	MoreQueues int      `json:"more_queues,omitempty"`
	Said       *said    `json:"said,omitempty"`
}

// queue are the calls of a priority and key that are in line.
type queue struct {
	Priority string  `json:"priority"`
	Key      string  `json:"key,omitempty"`
	Others   bool    `json:"other_keys,omitempty"`
	Waiting  int     `json:"waiting"`
	Oldest   float64 `json:"oldest_seconds"`
}

// said is what the server said last.
type said struct {
	At        time.Time `json:"at"`
	Verdict   string    `json:"verdict"`
	After     *float64  `json:"after_seconds,omitempty"`
	Limit     *int64    `json:"limit,omitempty"`
	Burst     *int64    `json:"burst,omitempty"`
	Window    *float64  `json:"window_seconds,omitempty"`
	Remaining *int64    `json:"remaining,omitempty"`
	Reset     *float64  `json:"reset_seconds,omitempty"`
	Share     *float64  `json:"share_per_second,omitempty"`
}

// asks reports that the server said when to come back.
func (s *said) asks() bool {
	return s != nil && (s.After != nil || s.Verdict == pace.Throttled.String() && s.Reset != nil)
}

// look returns the state of all, at most as old as a reader may see.
func (p *Page) look() *look {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.last != nil && now.Sub(p.last.At) < fresh {
		return p.last
	}
	l := &look{At: now, Parts: []part{}}
	for _, name := range slices.Sorted(maps.Keys(p.Throttles)) {
		if t := p.Throttles[name]; t != nil {
			l.Parts = append(l.Parts, p.throttle(name, t))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
		if g := p.Groups[name]; g != nil {
			l.Parts = append(l.Parts, p.group(name, g))
		}
	}
	l.html = content(l)
	p.last = l
	return l
}

// throttle is the part of a Throttle.
func (p *Page) throttle(name string, t *throttle.Throttle) part {
	rows, more := p.rows("", t.Status(), max(p.maxRows(), 1))
	return part{Name: named(name), Members: 1, Calls: p.calls(name), Limits: rows, More: more}
}

// member is one of a Group.
type member struct {
	name              string
	throttle          *throttle.Throttle
	waiting, inFlight int
}

// group is the part of a Group: the members that most calls wait for, by name.
func (p *Page) group(name string, g *throttle.Group) part {
	var all []member
	for name, t := range g.All() {
		all = append(all, member{name, t, t.Waiting(), t.InFlight()})
	}
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(b.waiting-a.waiting, b.inFlight-a.inFlight, strings.Compare(a.name, b.name))
	})
	out := part{Name: named(name), Group: true, Members: len(all), Calls: p.calls(name), Limits: []row{}}
	left, each := p.maxRows(), max(p.maxRows()/10, 2)
	n := 0
	blocks := map[string][]row{}
	for ; n < len(all) && left > 0; n++ {
		m := all[n]
		rows, more := p.rows(named(m.name), m.throttle.Status(), min(each, left))
		blocks[m.name] = rows
		left -= len(rows)
		out.More += more
	}
	out.More += len(all) - n
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		out.Limits = append(out.Limits, blocks[name]...)
	}
	return out
}

// rows are those of a Throttle: its own limit, and scopes, at most so many; more
// counts the scopes beyond.
func (p *Page) rows(name string, s pace.Status, most int) (rows []row, more int) {
	r := rowOf(s.At, s.LimitStatus)
	r.Own = p.ownOf(s)
	r.explain(s.At)
	rows = append(rows, r)
	slices.SortFunc(s.Scopes, func(a, b pace.LimitStatus) int {
		return cmp.Or(b.Waiting-a.Waiting, b.InFlight-a.InFlight, strings.Compare(a.Scope, b.Scope))
	})
	n := min(len(s.Scopes), most-1)
	more = len(s.Scopes) - n
	s.Scopes = s.Scopes[:n]
	slices.SortFunc(s.Scopes, func(a, b pace.LimitStatus) int { return strings.Compare(a.Scope, b.Scope) })
	for _, scope := range s.Scopes {
		r := rowOf(s.At, scope)
		r.Scope = named(scope.Scope)
		r.explain(s.At)
		rows = append(rows, r)
	}
	for i := range rows {
		rows[i].Name = name
	}
	return rows, more
}

func rowOf(now time.Time, l pace.LimitStatus) row {
	r := row{
		Rate: finite(l.Why.Rate), Source: l.Why.Source.String(),
		InFlight: l.InFlight, MaxInFlight: l.MaxInFlight, Waiting: l.Waiting,
		Limit: opt(l.Why.Limit), Remaining: opt(l.Why.Remaining),
	}
	if !l.Why.Throttled.IsZero() {
		r.Throttled = &l.Why.Throttled
	}
	if l.Why.Until.After(now) {
		r.Until = &l.Why.Until
	}
	return r
}

func (p *Page) ownOf(s pace.Status) *own {
	o := &own{Resting: s.Resting, Said: saidOf(s)}
	if s.Next != pace.Never {
		o.Next = seconds(s.Next)
	}
	if s.Resting > 0 {
		o.NextRetry = seconds(max(0, s.Rested.Sub(s.At)))
	}
	if len(s.Queues) > 0 {
		oldest := slices.MinFunc(s.Queues, func(a, b pace.Queue) int { return a.Oldest.Compare(b.Oldest) })
		o.Oldest = seconds(s.At.Sub(oldest.Oldest))
	}
	o.Queues, o.MoreQueues = p.queues(s.At, s.Queues)
	return o
}

// queues are the longest of all, by priority and key.
func (p *Page) queues(now time.Time, all []pace.Queue) (list []queue, more int) {
	slices.SortFunc(all, func(a, b pace.Queue) int {
		return cmp.Or(b.Waiting-a.Waiting, a.Oldest.Compare(b.Oldest), a.Lane-b.Lane, strings.Compare(a.Key, b.Key))
	})
	more = max(len(all)-mostQueues, 0)
	all = all[:len(all)-more]
	slices.SortFunc(all, func(a, b pace.Queue) int {
		return cmp.Or(int(b.Priority)-int(a.Priority), strings.Compare(a.Key, b.Key))
	})
	for _, q := range all {
		list = append(list, queue{q.Priority.String(), p.key(q.Key), q.Others, q.Waiting, now.Sub(q.Oldest).Seconds()})
	}
	return list, more
}

func saidOf(s pace.Status) *said {
	if s.SaidAt.IsZero() {
		return nil
	}
	h := s.Said.Hints
	x := &said{At: s.SaidAt, Verdict: s.Said.Verdict.String(), Limit: opt(h.Limit), Burst: opt(h.Burst), Remaining: opt(h.Remaining)}
	if h.Share.OK {
		x.Share = new(finite(h.Share.V))
	}
	if s.Said.After > 0 {
		x.After = seconds(s.Said.After)
	}
	if h.Window.OK {
		x.Window = seconds(h.Window.V)
	}
	if h.Reset.OK {
		x.Reset = seconds(h.Reset.V)
	}
	return x
}

func (p *Page) calls(name string) *calls {
	c := p.Counters[name]
	if c == nil {
		return nil
	}
	s := c.Stats()
	return &calls{s.Starts, s.Served, s.Throttled, s.Failed, s.Ignored, s.GaveUp, s.Waited.Seconds()}
}

// key is a key as it is shown.
func (p *Page) key(key string) string {
	if p.ShowKeys || key == "" {
		return shown(key)
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:4])
}

// shown is a name as it is shown: as long as fits, without what would move the
// text around it.
func shown(name string) string {
	var b strings.Builder
	n := 0
	for _, r := range name {
		if n++; n > longestName {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}

// named is shown of what has a row of its own.
func named(name string) string {
	if name == "" {
		return "(no name)"
	}
	return shown(name)
}

func seconds(d time.Duration) *float64 { return new(d.Seconds()) }

// finite is x as JSON can have it.
func finite(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return min(max(x, -math.MaxFloat64), math.MaxFloat64)
}

func opt[T any](o pace.Opt[T]) *T {
	if !o.OK {
		return nil
	}
	return &o.V
}
