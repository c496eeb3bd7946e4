package throttleotel

// Quota are the numbers of a quota service for proxies, for [Metrics.Quota]: those of a
// throttleenvoy.QuotaStats.
type Quota struct {
	// Streams, Buckets and Limits are the current ones.
	Streams, Buckets, Limits int
	// Allowed and Denied are the requests that proxies reported.
	Allowed, Denied int64
	// Assigned, Renewed, Abandoned and Refused count what became of buckets.
	Assigned, Renewed, Abandoned, Refused int64
	// StoreErrors counts the reports that could not be charged.
	StoreErrors int64
}

// Quota observes a quota service for proxies: read is called when a reader collects, from
// several goroutines.
func (m *Metrics) Quota(name string, read func() Quota) error {
	p := &read
	if read == nil {
		p = nil
	}
	return register(m, "Quota", name, p, ofQuota, func(read *func() Quota) Quota { return (*read)() })
}

var ofQuota = []reading[Quota]{
	{
		upDown, "throttle.quota.streams", "{stream}", "Streams of proxies.",
		func(q Quota, o observer) { o.count(int64(q.Streams)) },
	},
	{
		upDown, "throttle.quota.buckets", "{bucket}", "Buckets, counted for each stream.",
		func(q Quota, o observer) { o.count(int64(q.Buckets)) },
	},
	{
		upDown, "throttle.quota.limits", "{limit}", "Limits that buckets are subject to, counted for each key.",
		func(q Quota, o observer) { o.count(int64(q.Limits)) },
	},
	{
		counter, "throttle.quota.requests", "{request}", "Requests that proxies reported, by outcome: admitted or refused.",
		func(q Quota, o observer) {
			o.count(q.Allowed, keyOutcome.String("admitted"))
			o.count(q.Denied, keyOutcome.String("refused"))
		},
	},
	{
		counter, "throttle.quota.assignments", "{assignment}", "Assignments, by outcome: changed, renewed, or abandoned; and reports of buckets that were left unanswered.",
		func(q Quota, o observer) {
			o.count(q.Assigned, keyOutcome.String("changed"))
			o.count(q.Renewed, keyOutcome.String("renewed"))
			o.count(q.Abandoned, keyOutcome.String("abandoned"))
			o.count(q.Refused, keyOutcome.String("unanswered"))
		},
	},
	{
		counter, "throttle.quota.store_errors", "{report}", "Reports that could not be charged, as the Store failed.",
		func(q Quota, o observer) { o.count(q.StoreErrors) },
	},
}
