// Package peers models how other libraries pace and retry when they are
// throttled: as a [pace.Controller] each, step for step, with the defaults of
// the original.
//
//	AIMD                     additive increase, multiplicative decrease
//	AWS                      adaptive retry mode of the AWS SDK for Go v2
//	AutoSleeper              go-utils AutoSleeper
//	Bucket                   golang.org/x/time/rate, and one that knows future rates
//	Cenkalti                 cenkalti/backoff, exponential backoff
//	Failsafe, SRE            adaptive throttling (client-side rejection)
//	FailsafeLimiter, Netflix adaptive concurrency limits
//	Retryable                hashicorp/go-retryablehttp
//	Ruby                     rate_throttle_client, of Heroku's platform API
//
// Use them to compare a policy with what a program does today, in the simulator
// or by hand, and to migrate step by step: throttle.Throttle takes any of them
// as Control. New code is better served by [pace.Adaptive]. In bench/ each
// model is compared with its original. Most are made for one worker, as the
// original is; each says so.
//
// A model is not safe for concurrent use by itself; a throttle.Throttle or a
// [pace.Gate] calls it under a lock.
package peers
