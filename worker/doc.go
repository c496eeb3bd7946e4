// Package worker runs a stream of work through a rate limiter: records of a
// queue, messages of a subscription, a thousand jobs. It bounds what is in
// flight, keeps order where it is asked to, retries, and loses nothing.
//
// A [Worker] calls one function for each record, paced and bounded by a
// [throttle.Throttle]. An [Assignment] is a source of records, such as one
// partition of a topic; it keeps a commit frontier, the offset below which every
// record is done. A program that commits the frontier, and nothing else, loses
// no record in a crash, and repeats at most what was done since the last commit
// and a Window: rate times commit interval, plus Window.
//
// For a list of jobs, use [Worker.Each]:
//
//	w := worker.Worker[string]{Handle: fetch}
//	for url, err := range w.Each(ctx, slices.Values(urls)) {
//		...
//	}
//
// For a consumer of a partitioned log, use [Worker.Assign] when a partition is
// assigned, [Assignment.Add] for what was fetched, [Assignment.Frontier] for
// what to commit, [Assignment.Revoke] before the partition goes to another
// consumer, and [Assignment.Lost] when it is gone already. None of them but
// Revoke waits, so the loop that fetches never blocks: where Add has no room,
// pause that partition until [Worker.Room] is called (backpressure).
//
// For messages that are acknowledged one by one, acknowledge at the end of
// [Worker.Handle] and leave the frontier alone.
//
// # Bounds
//
//	Throttle      the rate of tries, and how many are in flight
//	MaxInFlight   tries in flight of this Worker
//	Window        records of one assignment at or above its frontier: memory,
//	              and what a crash repeats beyond the last commit interval
//	MaxBytes      the size of all records that are not done
//	Timeout       one try
//
// A record that waits for its turn, for an earlier record of its key, or for a
// retry has no goroutine and does not count as in flight: there are at most
// MaxInFlight goroutines in Handle, 16 in Dead, one that waits for the Throttle,
// and 16 that are kept for what starts next. Each call of OnEvent or Room that has
// not returned holds one more, and nothing bounds their number: they should return
// soon. [Worker.Stats] reports which bound holds back the stream.
//
// # Testing
//
// All waiting is by timers and contexts, so a program that uses a Worker is
// tested in a testing/synctest bubble (virtual time). Make the Worker inside the
// bubble.
package worker
