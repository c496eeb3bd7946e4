// Package fit identifies a rate limiter from outside: which kind it is (token
// bucket, fixed window, sliding log, sliding window counter, concurrency limit,
// a queue that delays) and its parameters, from the answers that a caller saw.
// [Fit] weighs the kinds by their likelihood, and [Plan] decides what to send
// next so that few requests are refused. Both are functions of values: they read
// no clock, send nothing and draw no random numbers.
//
//	var answers []fit.Answer
//	for plan := (fit.Plan{}); ; {
//		step, more := plan.Next(time.Now(), answers)
//		if !more {
//			break
//		}
//		answers = append(answers, send(step)...) // as Step describes
//	}
//	result := fit.Fit(answers)
//	fmt.Println(result.Candidates[0].Model) // token bucket, 5/s, burst 10
//
// A log of past requests can be given to Fit without sending any.
package fit
