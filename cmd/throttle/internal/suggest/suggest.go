package suggest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// Options say what is wanted.
type Options struct {
	// Touch is the share of the honest keys that may be refused, above zero and below
	// one half.
	Touch float64
	// Flood is the most that an honest key does. If zero, ten times as much as all but
	// one in a hundred keys do at most, for each of the Periods. Its Period is one of
	// them.
	Flood limit.Limit
}

// confidence is that of the share, and of its prediction for another day.
const confidence = 0.95

// Proposal holds limits, and how they were found.
type Proposal struct {
	// Limits are token buckets, the shortest period first, that hold all at once. None
	// if the time that was seen is too short: an eighth of it bounds the periods.
	Limits []Limit `json:"limits"`
	// Honest counts the keys that the proposal is made from, Flooding those that did
	// more than honest ones do. Both are of a sample of one in Sampled keys.
	Honest   int `json:"honest"`
	Flooding int `json:"flooding"`
	Sampled  int `json:"sampled"`
	// Touched counts the honest keys that the limits would have refused something.
	Touched int `json:"touched"`
	// Promised is the share that another day of the same traffic keeps within, with a
	// confidence of 95%. It is above Touch if the keys are too few to know; then each
	// limit is twice what the busiest of them did.
	Promised float64 `json:"promised"`
}

// Limit is one proposed limit, with what it was derived from.
type Limit struct {
	Limit limit.Limit `json:"-"`
	Text  string      `json:"limit"`
	// Median, P99 and Most are of the honest keys: how many requests they made at most
	// in a window of the period.
	Median int64 `json:"median"`
	P99    int64 `json:"p99"`
	Most   int64 `json:"most"`
	// Flood is from where on a key counted as flooding.
	Flood int64 `json:"flood"`
}

// Propose returns limits for the keys of p.
func (p *Peaks) Propose(o Options) Proposal {
	proposal := Proposal{Sampled: 1 << p.halvings, Promised: 1}
	n := p.known()
	flood := p.flood(o, n)
	var honest []*peak
	for i := range p.keys {
		if p.keys[i].within(flood) {
			honest = append(honest, &p.keys[i])
		}
	}
	proposal.Honest, proposal.Flooding = len(honest), len(p.keys)-len(honest)
	if n == 0 || len(honest) == 0 {
		return proposal
	}
	sorted := sortedPeaks(honest, n)
	spared, enough := mostTouched(len(honest), o.Touch)
	limits := limitsOf(honest, sorted, spared)
	for i := range limits {
		if !enough {
			limits[i] = 2 * sorted[i][0]
		}
		limits[i] = round(limits[i])
	}
	proposal.Touched = touched(honest, limits)
	proposal.Promised = promised(len(honest), proposal.Touched, o.Touch, enough)
	proposal.Limits = described(limits, sorted, flood)
	return proposal
}

// sortedPeaks returns the peaks of all keys for the first n periods, falling.
func sortedPeaks(keys []*peak, n int) [][]uint32 {
	sorted := make([][]uint32, n)
	for i := range sorted {
		sorted[i] = make([]uint32, len(keys))
		for j, k := range keys {
			sorted[i][j] = k.most[i]
		}
		slices.SortFunc(sorted[i], func(a, b uint32) int { return cmp.Compare(b, a) })
	}
	return sorted
}

// described returns the limits that another one does not imply.
func described(limits []uint32, sorted [][]uint32, flood [periods]uint32) (all []Limit) {
	for i, most := range limits {
		if implied(limits, i) {
			continue
		}
		l := limit.Limit{Count: int64(most), Period: Periods[i]}
		keys := len(sorted[i])
		all = append(all, Limit{
			Limit: l, Text: l.String(), Flood: int64(flood[i]),
			Median: int64(sorted[i][keys/2]), P99: int64(sorted[i][keys/100]), Most: int64(sorted[i][0]),
		})
	}
	return all
}

// implied reports whether another limit is as strict as the i-th at any time: it
// allows no more at once, and is refilled no faster.
func implied(limits []uint32, i int) bool {
	for j, most := range limits {
		faster := uint64(most)*uint64(Periods[i]/time.Second) > uint64(limits[i])*uint64(Periods[j]/time.Second)
		if j != i && most <= limits[i] && !faster {
			return true
		}
	}
	return false
}

// known returns of how many periods enough was seen.
func (p *Peaks) known() (n int) {
	for n < periods && p.last.Sub(p.start) >= 8*Periods[n]-Periods[n]/slots { // the last request of a day is before its end
		n++
	}
	return n
}

// flood returns from where on a key is flooding, for each period.
func (p *Peaks) flood(o Options, n int) (most [periods]uint32) {
	for i := range most {
		most[i] = math.MaxUint32
		switch {
		case o.Flood.Period == Periods[i]:
			most[i] = uint32(min(o.Flood.Count, math.MaxUint32))
		case o.Flood.Period == 0 && i < n && len(p.keys) > 0:
			all := make([]uint32, len(p.keys))
			for j := range p.keys {
				all[j] = p.keys[j].most[i]
			}
			slices.Sort(all)
			most[i] = uint32(min(10*uint64(all[len(all)-1-len(all)/100]), math.MaxUint32))
		}
	}
	return most
}

func (k *peak) within(most [periods]uint32) bool {
	for i := range most {
		if k.most[i] > most[i] {
			return false
		}
	}
	return true
}

// limitsOf returns the lowest limits, each as many places from the top as the others,
// that touch at most so many keys together.
func limitsOf(keys []*peak, sorted [][]uint32, most int) []uint32 {
	at := func(place int) (limits []uint32) {
		for _, all := range sorted {
			limits = append(limits, all[place])
		}
		return limits
	}
	low, high := 0, min(most, len(keys)-1) // low touches few enough: none
	for low < high {
		mid := (low + high + 1) / 2
		if touched(keys, at(mid)) <= most {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return at(low)
}

// touched counts the keys that are above one of the limits.
func touched(keys []*peak, limits []uint32) (n int) {
	for _, k := range keys {
		for i, most := range limits {
			if k.most[i] > most {
				n++
				break
			}
		}
	}
	return n
}

// mostTouched returns how many of n keys may be touched, so that on another day of the
// same traffic no more than that share are. Not enough keys: the answer is zero, and
// even that promises less.
func mostTouched(n int, share float64) (most int, enough bool) {
	if !keeps(n, 0, share) {
		return 0, false
	}
	low, high := 0, int(share*float64(n))
	for low < high {
		mid := (low + high + 1) / 2
		if keeps(n, mid, share) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low, true
}

// keeps reports whether a limit that touches k of n keys touches no more than a share
// of n others. The number of those is taken as that of Poisson, whose mean is as high
// as k allows.
func keeps(n, k int, share float64) bool {
	return poisson(int(share*float64(n)), highest(k)) >= confidence
}

// highest returns the highest mean at which k events or fewer are not yet improbable.
func highest(k int) float64 {
	low, high := float64(k), float64(k)+10*math.Sqrt(float64(k)+1)+10
	for range 60 {
		mid := (low + high) / 2
		if poisson(k, mid) > 1-confidence {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// poisson returns the probability of at most k events where the mean is given.
func poisson(k int, mean float64) (sum float64) {
	for i := range k + 1 {
		log := float64(i)*math.Log(mean) - mean
		g, _ := math.Lgamma(float64(i) + 1)
		sum += math.Exp(log - g)
	}
	return min(sum, 1)
}

// promised returns the share that is kept, at least the one that was wanted.
func promised(n, k int, share float64, enough bool) float64 {
	if enough {
		return share
	}
	for most := k; most <= n; most++ {
		if s := float64(most) / float64(n); s >= share && poisson(most, highest(k)) >= confidence {
			return s
		}
	}
	return 1
}

// round rounds up to two digits.
func round(n uint32) uint32 {
	unit := uint64(1)
	for uint64(n)/unit >= 100 {
		unit *= 10
	}
	return uint32(min((uint64(n)+unit-1)/unit*unit, math.MaxUint32))
}
