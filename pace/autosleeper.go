package pace

import "time"

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
// step down is not held to MaxInterval: with the default randomisation it
// ends higher than it began in three cases of ten.
//
// As a Controller it serves one worker, alone in its Gate; several that share
// it each multiply the interval for one and the same trouble. Failure, Success
// and Metrics may be used without a Gate. It is not safe for concurrent use.
type AutoSleeper struct {
	// InitialInterval is the first interval, and the least. If zero, 500 ms.
	InitialInterval time.Duration
	// MaxInterval is the most that a failure makes of it. If zero, 15 minutes.
	MaxInterval time.Duration
	// MaxRandomization bounds the random part. If zero, 2 minutes.
	MaxRandomization time.Duration
	// UpMultiplier is applied after a failure. If zero, 1.5.
	UpMultiplier float64
	// DownMultiplier is applied after enough successes. If zero, 0.9.
	DownMultiplier float64
	// RandomizationFactor is the random part of each new interval. If zero,
	// none; DefaultAutoSleeper sets 0.3.
	RandomizationFactor float64
	// DownMultiplierThreshold is how many successes are enough. If zero, 10.
	DownMultiplierThreshold int

	metrics   AutoSleeperMetrics
	interval  time.Duration
	successes int
	next      time.Time // end of the sleep under way
}

// AutoSleeperMetrics counts what an AutoSleeper did.
type AutoSleeperMetrics struct {
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

var _ Controller = (*AutoSleeper)(nil)

// DefaultAutoSleeper is an AutoSleeper with the original's defaults. It
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

// Metrics returns the counts so far.
func (s *AutoSleeper) Metrics() AutoSleeperMetrics { return s.metrics }

// Failure learns that a call failed and returns how long to sleep now.
func (s *AutoSleeper) Failure(luck Luck) time.Duration {
	s.metrics.TotalInvocation++
	s.goUp(luck)
	return s.sleep()
}

// Success learns that a call succeeded and returns how long to sleep now.
func (s *AutoSleeper) Success(luck Luck) time.Duration {
	s.metrics.TotalInvocation++
	if s.interval == 0 {
		return 0
	}
	s.successes++
	if s.successes == or(s.DownMultiplierThreshold, defaultDownMultiplierThreshold) {
		s.goDown(luck)
		s.successes = 0
	}
	return s.sleep()
}

func (s *AutoSleeper) sleep() time.Duration {
	s.metrics.TotalSleepTime += s.interval
	s.metrics.TotalSlept++
	return s.interval
}

func (s *AutoSleeper) goUp(luck Luck) {
	s.metrics.TotalWentUp++
	if s.interval == 0 {
		s.interval = or(s.InitialInterval, defaultInitialInterval)
		return
	}
	longest := or(s.MaxInterval, defaultMaxInterval)
	v := s.randomised(float64(s.interval)*or(s.UpMultiplier, defaultUpMultiplier), luck)
	if v > float64(longest) {
		s.interval = longest
		return
	}
	s.interval = nanoseconds(v)
}

func (s *AutoSleeper) goDown(luck Luck) {
	s.metrics.TotalWentDown++
	v := s.randomised(float64(s.interval)*or(s.DownMultiplier, defaultDownMultiplier), luck)
	if v < float64(or(s.InitialInterval, defaultInitialInterval)) {
		s.interval = 0
		return
	}
	s.interval = nanoseconds(v)
}

func (s *AutoSleeper) randomised(v float64, luck Luck) float64 {
	if !(s.RandomizationFactor > 0) {
		return v
	}
	delta := min(s.RandomizationFactor*v, float64(or(s.MaxRandomization, defaultMaxRandomization)))
	return v - delta + 2*delta*luck.Unit(0)
}

// Wait is what is left of the sleep after the last call. A forecast for a
// later place adds one sleep a call.
func (s *AutoSleeper) Wait(now time.Time, r Request) time.Duration {
	wait := until(s.next, now)
	if r.Place > 1 {
		wait = nanoseconds(float64(max(wait, 0)) + float64(r.Place-1)*float64(s.interval))
	}
	return wait
}

// Start does nothing.
func (s *AutoSleeper) Start(time.Time, Request) {}

// Observe begins the sleep after a call that was served or throttled; others
// change nothing. There is no rest, since all calls sleep alike.
func (s *AutoSleeper) Observe(now time.Time, o Outcome) (rest time.Duration) {
	switch o.Verdict {
	case Served:
		s.next = now.Add(s.Success(o.Request.Luck))
	case Throttled:
		s.next = now.Add(s.Failure(o.Request.Luck))
	}
	return 0
}
