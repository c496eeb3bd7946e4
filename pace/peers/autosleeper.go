package peers

import (
	"time"

	"github.com/throttle-go/throttle/pace"
	"github.com/throttle-go/throttle/pace/internal/schedule"
)

// AutoSleeper is the responsive exponential backoff of Sakthi Priyan's
// go-utils: it sleeps after every call, failed or not; longer after each
// failure, less again after a number of successes.
//
//	failure: interval = InitialInterval if it was 0, else interval × UpMultiplier,
//	         randomised, at most MaxInterval
//	every DownMultiplierThreshold-th success while interval > 0:
//	         interval = interval × DownMultiplier, randomised; 0 if that is below
//	         InitialInterval
//	randomised: v ± min(v × RandomizationFactor, MaxRandomization)
//
// As in the original a failure does not reset the count of successes, and a
// step down is not bounded by MaxInterval: with the default randomisation it
// ends higher than it began in three cases of ten.
//
// As a Controller it serves one worker, alone in its Gate; workers that share
// it each multiply the interval for the same failure. Failure, Success and
// Stats may be used without a Gate. It is not safe for concurrent use; package
// autosleeper is.
type AutoSleeper struct {
	// InitialInterval is the first interval, and the least. If zero, 500 ms.
	InitialInterval time.Duration
	// MaxInterval bounds the interval after a failure. If zero, 15 minutes.
	MaxInterval time.Duration
	// MaxRandomization bounds the random part. If zero, 2 minutes.
	MaxRandomization time.Duration
	// UpMultiplier multiplies the interval after a failure. If zero, 1.5.
	UpMultiplier float64
	// DownMultiplier multiplies the interval after enough successes. If zero,
	// 0.9.
	DownMultiplier float64
	// RandomizationFactor is the random part of each new interval. If zero,
	// none; DefaultAutoSleeper sets 0.3.
	RandomizationFactor float64
	// DownMultiplierThreshold is the number of successes for a step down. If
	// zero, 10.
	DownMultiplierThreshold int

	stats     AutoSleeperStats
	interval  time.Duration
	successes int
	next      time.Time // end of the current sleep
}

// AutoSleeperStats counts what an AutoSleeper did.
type AutoSleeperStats struct {
	TotalInvocation int           // calls of Failure and Success
	TotalWentUp     int           // calls of Failure
	TotalWentDown   int           // steps down
	TotalSlept      int           // sleeps, those of length 0 after a step down to 0 included
	TotalSleepTime  time.Duration // sum of the sleeps
}

const (
	defaultInitialInterval         = 500 * time.Millisecond
	defaultMaxInterval             = 15 * time.Minute
	defaultMaxRandomization        = 2 * time.Minute
	defaultUpMultiplier            = 1.5
	defaultDownMultiplier          = 0.9
	defaultRandomizationFactor     = 0.3
	defaultDownMultiplierThreshold = 10
)

var _ pace.Controller = (*AutoSleeper)(nil)

// DefaultAutoSleeper returns an AutoSleeper with the original's defaults. It
// differs from a zero one by its RandomizationFactor of 0.3.
func DefaultAutoSleeper() *AutoSleeper {
	return &AutoSleeper{
		InitialInterval:         defaultInitialInterval,
		MaxInterval:             defaultMaxInterval,
		MaxRandomization:        defaultMaxRandomization,
		UpMultiplier:            defaultUpMultiplier,
		DownMultiplier:          defaultDownMultiplier,
		RandomizationFactor:     defaultRandomizationFactor,
		DownMultiplierThreshold: defaultDownMultiplierThreshold,
	}
}

// Stats returns the counts so far.
func (s *AutoSleeper) Stats() AutoSleeperStats { return s.stats }

// Failure records that a call failed and returns how long to sleep now.
func (s *AutoSleeper) Failure(luck pace.Luck) time.Duration {
	s.stats.TotalInvocation++
	s.goUp(luck)
	return s.sleep()
}

// Success records that a call succeeded and returns how long to sleep now.
func (s *AutoSleeper) Success(luck pace.Luck) time.Duration {
	s.stats.TotalInvocation++
	if s.interval == 0 {
		return 0
	}
	s.successes++
	if s.successes == schedule.Or(s.DownMultiplierThreshold, defaultDownMultiplierThreshold) {
		s.goDown(luck)
		s.successes = 0
	}
	return s.sleep()
}

func (s *AutoSleeper) sleep() time.Duration {
	s.stats.TotalSleepTime += s.interval
	s.stats.TotalSlept++
	return s.interval
}

func (s *AutoSleeper) goUp(luck pace.Luck) {
	s.stats.TotalWentUp++
	if s.interval == 0 {
		s.interval = schedule.Or(s.InitialInterval, defaultInitialInterval)
		return
	}
	longest := schedule.Or(s.MaxInterval, defaultMaxInterval)
	v := s.randomised(float64(s.interval)*schedule.Or(s.UpMultiplier, defaultUpMultiplier), luck)
	if v > float64(longest) {
		s.interval = longest
		return
	}
	s.interval = schedule.Nanoseconds(v)
}

func (s *AutoSleeper) goDown(luck pace.Luck) {
	s.stats.TotalWentDown++
	v := s.randomised(float64(s.interval)*schedule.Or(s.DownMultiplier, defaultDownMultiplier), luck)
	if v < float64(schedule.Or(s.InitialInterval, defaultInitialInterval)) {
		s.interval = 0
		return
	}
	s.interval = schedule.Nanoseconds(v)
}

func (s *AutoSleeper) randomised(v float64, luck pace.Luck) float64 {
	if !(s.RandomizationFactor > 0) {
		return v
	}
	delta := min(s.RandomizationFactor*v, float64(schedule.Or(s.MaxRandomization, defaultMaxRandomization)))
	return v - delta + 2*delta*luck.Unit(0)
}

// Wait returns what is left of the sleep after the last call. A forecast for a
// later place adds one sleep a call.
func (s *AutoSleeper) Wait(now time.Time, r pace.Request) time.Duration {
	wait := schedule.Until(s.next, now)
	if r.Place > 1 {
		wait = schedule.Nanoseconds(float64(max(wait, 0)) + float64(r.Place-1)*float64(s.interval))
	}
	return wait
}

// Start does nothing.
func (s *AutoSleeper) Start(time.Time, pace.Request) {}

// Observe begins the sleep after a call that was served or throttled; others
// change nothing. There is no rest, since all calls sleep alike.
func (s *AutoSleeper) Observe(now time.Time, o pace.Outcome) (rest time.Duration) {
	switch o.Verdict {
	case pace.Served:
		s.next = now.Add(s.Success(o.Request.Luck))
	case pace.Throttled:
		s.next = now.Add(s.Failure(o.Request.Luck))
	}
	return 0
}
