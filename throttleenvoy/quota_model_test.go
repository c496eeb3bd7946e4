package throttleenvoy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// FuzzQuota: whatever several proxies demand, and how often their streams end, together
// they hold no more than the rate of the limit and what it spends of its burst, and admit no
// more than
//
//	burst + rate × time + what the buckets held that were replaced
//
// and the first request of each, which is admitted before there is an assignment.
func FuzzQuota(f *testing.F) {
	f.Add(uint64(1), uint16(100), uint16(100), uint8(3))
	f.Add(uint64(2), uint16(10), uint16(1000), uint8(2))
	f.Add(uint64(3), uint16(30), uint16(1), uint8(4))
	f.Add(uint64(189), uint16(0), uint16(22), uint8(62)) // a stream ends before its first report: Envoy has what is not known
	f.Add(uint64(74), uint16(42), uint16(0), uint8(57))  // two streams end: which of them comes back?
	f.Fuzz(func(t *testing.T, seed uint64, count, burst uint16, proxies uint8) {
		r, limit, full := rand.New(rand.NewPCG(seed, 1)), 1+float64(count%500), 1+int(burst%2000)
		bubble.Test(t, func(t *testing.T) {
			s := quotas(t, fmt.Sprintf(`{"rules": [{"name": "all", "match": {"domains": "edge"}, "limits": "%v/s burst %d"}]}`, limit, full))
			var all []*proxy
			for range 1 + proxies%4 {
				all = append(all, proxyOf(t, s))
			}
			defer func() { end(all...) }()
			began := time.Now()
			for range 90 {
				p := all[r.IntN(len(all))]
				switch r.IntN(10) {
				case 0:
					end(p)
					p.connect()
				case 1, 2:
					p.bucket("a=1").demand = 3 * limit * r.Float64()
				}
				pass(time.Second, all...)
				held, admitted, granted := 0., 0, 0.
				for _, p := range all {
					held, admitted, granted = held+max(p.bucket("a=1").rate(), 0), admitted+p.allowed, granted+p.granted
				}
				if most := max(limit+float64(full)/40, 1.25*limit); held > most*1.001 {
					t.Fatalf("after %v proxies hold %v/s of %v/s burst %d", time.Since(began), held, limit, full)
				}
				if most := float64(full) + limit*time.Since(began).Seconds() + granted + float64(len(all)); float64(admitted) > most {
					t.Fatalf("after %v %d were admitted, want at most %v", time.Since(began), admitted, most)
				}
			}
		})
	})
}
