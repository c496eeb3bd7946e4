package throttletest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// limits are those asked for at random, from periods shorter than a question
// takes to such that hardly change.
var limits = []limit.Limit{
	{Count: 3, Period: 7 * time.Microsecond},
	{Count: 3, Period: 50 * time.Microsecond, Burst: 5},
	{Count: 7, Period: time.Millisecond},
	{Count: 10, Period: 30 * time.Millisecond, Burst: 4},
	{Count: 3, Period: time.Second, Burst: 2},
	{Count: 600_000_000, Period: time.Second, Burst: 100},
	{Count: 1, Period: day},
	{Count: 1_000_000, Period: time.Hour},
	{Kind: limit.FixedWindow, Count: 2, Period: 40 * time.Microsecond},
	{Kind: limit.FixedWindow, Count: 5, Period: 3 * time.Millisecond},
	{Kind: limit.FixedWindow, Count: 20, Period: time.Minute},
	{Kind: limit.FixedWindow, Count: 1_000_000, Period: day},
	{},
	{Period: time.Second},
}

// model is package limit, asked the same questions at the same times.
type model struct {
	suite
	states map[string]limit.State
}

// steps puts random questions, one to three at a time.
func (s suite) steps(t *testing.T) {
	m := model{s, map[string]limit.State{}}
	rng := rand.New(rand.NewPCG(1, 2)) // the answers vary with time, the questions need not
	for range 3000 {
		var a []limit.Ask
		for _, i := range rng.Perm(len(limits))[:1+rng.IntN(3)] {
			a = append(a, randomAsk(rng, s.key("steps "+string(rune('a'+i))), limits[i]))
		}
		if !m.agree(t, a) {
			return
		}
	}
}

func randomAsk(rng *rand.Rand, key string, l limit.Limit) limit.Ask {
	a := limit.Ask{Key: key, Limit: l, N: 1}
	switch rng.IntN(8) {
	case 0:
		a.N = 0
	case 1:
		a.N = -rng.Int64N(4)
	case 2:
		a.N = rng.Int64N(10)
	case 3:
		a.N = 1 + l.Most()/(1+rng.Int64N(3)) // up to one too many
	case 4:
		a.N, a.Min = 1+rng.Int64N(10), rng.Int64N(4)
	case 5:
		a.N, a.Debt = rng.Int64N(4), true
	}
	if l.Unlimited() {
		a.N = min(a.N, 1000)
	}
	return a
}

// allOrNothing puts questions of which the first fits more often.
func (s suite) allOrNothing(t *testing.T) {
	m := model{s, map[string]limit.State{}}
	large := limit.Limit{Count: 10, Period: day}
	small := limit.Limit{Kind: limit.FixedWindow, Count: 4, Period: 365 * day}
	for range 6 {
		if !m.agree(t, []limit.Ask{
			{Key: s.key("all large"), Limit: large, N: 1},
			{Key: s.key("all small"), Limit: small, N: 1},
		}) {
			return
		}
	}
	for _, c := range []struct {
		key  string
		l    limit.Limit
		want int64
	}{{"all large", large, 6}, {"all small", small, 0}} {
		if d := s.take(t, limit.Ask{Key: s.key(c.key), Limit: c.l}); d.Remaining != c.want {
			t.Errorf("after 4 of 6 pairs passed, %q has %d remaining, want %d", c.key, d.Remaining, c.want)
		}
	}
}

// agree asks the store, and package limit as of the time that the store gives,
// and reports whether they are of one mind.
func (m model) agree(t *testing.T, a []limit.Ask) bool {
	t.Helper()
	got := make([]limit.Decision, len(a))
	ok, err := m.store.Take(t.Context(), a, got)
	if err != nil {
		t.Errorf("Take(%+v): error %v", a, err)
		return false
	}
	states := make([]limit.State, len(a))
	for i := range a {
		states[i] = m.states[a[i].Key]
	}
	want := make([]limit.Decision, len(a))
	at := got[0].At
	wantOK := limit.TakeAll(states, at, a, want)
	same := ok == wantOK
	for i := range a {
		same = same && got[i].At.Equal(at)
		got[i].At, want[i].At = time.Time{}, time.Time{}
		same = same && got[i] == want[i]
	}
	if !same {
		t.Errorf("Take(%+v)\n from %+v\n got  %v %+v\n want %v %+v", a, m.before(a), ok, got, wantOK, want)
	}
	for i := range a {
		m.states[a[i].Key] = states[i]
	}
	return same
}

// before is what the model remembers of the keys asked for.
func (m model) before(a []limit.Ask) (s []limit.State) {
	for i := range a {
		s = append(s, m.states[a[i].Key])
	}
	return s
}
