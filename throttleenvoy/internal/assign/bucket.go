package assign

import "math"

// Bucket is a token bucket as Envoy 1.40 has it: it begins full, and is refilled
// continuously. The zero Bucket is none.
type Bucket struct {
	// Max is how many events may come at once, above zero.
	Max uint32
	// Fill events are added in each Every seconds, both above zero: Envoy knows whole
	// seconds only.
	Fill  uint32
	Every int64
}

// spans are the seconds in which a Bucket is refilled by several events, the shortest
// first.
var spans = [...]int64{1, 2, 3, 5, 10, 20, 30, 60, 300, 3600}

// never is the time in which a Bucket without a rate gets its next event, in seconds: a year.
const never = 365 * 24 * 3600

// BucketOf is a Bucket of at most the rate r, and less than 2 % below it: of the
// shortest time in which whole events make that rate. It holds the events of a second, or
// burst if that is more, but at most most; at least one, as a bucket of none has no use.
func BucketOf(r Rate, burst, most int64) Bucket {
	b := Bucket{Fill: 1, Every: never}
	if r > 0 {
		b.Every = min(int64(PerSecond/(r+1))+1, never)
	}
	for _, every := range spans {
		exact := (r+1)*Rate(every) - 1 // as r is rounded down
		if fill := exact / PerSecond; fill > 0 && fill <= math.MaxUint32 && exact-fill*PerSecond <= exact/50 {
			b.Fill, b.Every = uint32(fill), every
			break
		}
	}
	second := int64((r-1)/PerSecond) + 1 // rounded up
	b.Max = uint32(max(min(max(second, burst), most, math.MaxUint32), 1))
	return b
}

// Rate is the rate of the Bucket, rounded down. That of none is zero.
func (b Bucket) Rate() Rate {
	if b.Fill == 0 || b.Every >= never {
		return 0
	}
	return Rate(b.Fill) * PerSecond / Rate(b.Every)
}

// Unlike returns b so that Envoy sees that it is another than old: Envoy 1.40 looks at
// Max and Fill only.
func (b Bucket) Unlike(old Bucket) Bucket {
	switch {
	case b.Max != old.Max || b.Fill != old.Fill || b.Every == old.Every:
	case b.Max > 1:
		b.Max--
	default:
		b.Max++
	}
	return b
}
