package fit

// Interval is a range in which a parameter lies with a probability of about
// 95 %, given that the kind is right. Both ends are zero where the kind has no
// such parameter.
type Interval struct{ Low, High float64 }

// Candidate is one Kind with the parameters that explain the answers best.
type Candidate struct {
	Model
	// LogLikelihood is the natural logarithm of the likelihood of the answers
	// under the Model. Only differences between candidates mean something.
	LogLikelihood float64
	// Share is the posterior probability of the Kind, all being equally likely
	// before.
	Share float64
	// RateIn, BurstIn, CountIn, PeriodIn and InFlightIn are the intervals of the
	// parameters of that name; those of Period are in seconds.
	RateIn, BurstIn, CountIn, PeriodIn, InFlightIn Interval
}

// Result is what the answers say about the rate limiter.
type Result struct {
	// Candidates has one Candidate for each Kind that is not excluded, with
	// FixedWindow twice (FromFirst and not), the likeliest first. It is never
	// empty: without answers it is Unlimited.
	Candidates []Candidate
	// Decided reports that the first Candidate is at least 99 times as likely
	// as any other, and that its parameters are known to about 5 %.
	Decided bool
	// Why is the reason in one line where Decided is false; otherwise it is
	// empty.
	Why string
	// Used and Refused count the answers that were used, and those of them that
	// were refused.
	Used, Refused int
	// Unexplained is the number of refusals that the first Candidate does not
	// explain by this caller's requests alone. Some point to other callers that
	// share the limit.
	Unexplained int
	// Shared reports that Unexplained is more than the error probability of the
	// noise model allows: other callers use the same limit, and the rate found
	// is what they leave.
	Shared bool
}

// Fit returns which rate limiter explains the answers, in any order. It uses at
// most MaxAnswers, and needs O(n log n) for their sort and a bounded time beyond
// it.
func Fit(answers []Answer) Result {
	return Result{Candidates: []Candidate{{Share: 1}}, Why: "not tried yet"}
}
