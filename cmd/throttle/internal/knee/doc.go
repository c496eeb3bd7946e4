// Package knee finds the breakpoint (knee) of a service under an open-loop load
// test: the highest offered rate, or concurrency, at which an objective of
// latency and errors still holds. It decides which trial to run next and what
// the outcomes mean, and does no more: it sends nothing, reads no clock and
// draws nothing at random, so a search is a function of its outcomes, and the
// same outcomes give the same search. A load generator runs the trials.
//
//	s := knee.Search{Objective: knee.Objective{Latency: 250 * time.Millisecond}}
//	for {
//		trial, ok := s.Next()
//		if !ok {
//			break
//		}
//		s.Add(generate(ctx, trial))
//	}
//	found := s.Result()
//
// A search starts slowly, doubles the rate until the objective fails, narrows
// down by probabilistic bisection (Waeber, Frazier, Henderson 2013), and then
// pushes the service past the knee and back, to see whether it recovers.
package knee
