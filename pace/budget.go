package pace

// Budget is a retry budget: it bounds the retries of failed calls by a Gate, so that a service in
// trouble does not get several times its load. Retries of throttled calls do not count, as the
// Controller paces them. A call for which no retry is left is given up with its last error.
//
// It is a token bucket, full at first, with Max tokens. Retries take tokens and calls add some. In
// the zero Budget, of 10 tokens, a retry takes 1 and a call adds 0.1: when every try fails, the
// first 10 retries are made, and then one for every ten calls.
type Budget struct {
	// Max is the number of tokens at first and at most. If zero, 10; below zero, there is no
	// bound on retries.
	Max float64
	// Retry is the number of tokens that a retry takes. If zero, 1; below zero, none.
	Retry float64
	// Call is the number of tokens that each call adds as it enters, however it ends. If
	// Call, Served and First are all zero, 0.1.
	Call float64
	// Served is the number of tokens that each served try adds. First is added besides, if it
	// is the first try of its call.
	Served, First float64
	// Failed is the number of tokens that each failed try takes.
	Failed float64
	// Keep is the number of tokens kept back: a retry needs more than Keep before it, and at
	// least Keep after it.
	Keep float64
	// Refund returns the tokens of a retry that is served.
	Refund bool
}

// Retry budgets of other libraries. In AWS's a timeout counts like any other failure, which it
// does not in the present mode of the SDK.
var (
	// FinagleBudget is Finagle's default, com.twitter.finagle.service.RetryBudget: a fifth of
	// the calls and some to begin with. Tokens do not expire after 10 s, but at most 100 are
	// saved up.
	FinagleBudget = Budget{Max: 100, Call: 0.2}
	// GRPCBudget is the retryThrottling of gRPC (gRFC A6) with the usual maxTokens 10 and
	// tokenRatio 0.1: it retries only while more than half of the tokens are left.
	GRPCBudget = Budget{Max: 10, Retry: -1, Served: 0.1, Failed: 1, Keep: 5}
	// AWSBudget is the retry quota of the standard retry mode of the AWS SDKs.
	AWSBudget = Budget{Max: 500, Retry: 5, First: 1, Refund: true}
	// AWS2026Budget is the retry quota of AWS_NEW_RETRIES_2026.
	AWS2026Budget = Budget{Max: 500, Retry: 14, First: 1, Refund: true}
)

// purse is the token bucket of a Budget.
type purse struct {
	Budget
	tokens float64
	open   bool
}

// begin sets the defaults and fills the bucket, once.
func (p *purse) begin(b Budget) {
	if p.open {
		return
	}
	p.Budget, p.open = b, true
	if p.Max == 0 {
		p.Max = 10
	}
	if p.Call == 0 && p.Served == 0 && p.First == 0 {
		p.Call = 0.1
	}
	switch {
	case p.Retry == 0:
		p.Retry = 1
	case p.Retry < 0:
		p.Retry = 0
	}
	p.tokens = p.Max
}

// add adds x tokens, or takes -x, within zero and Max.
func (p *purse) add(x float64) { p.tokens = min(max(p.tokens+x, 0), max(p.Max, 0)) }

// ended adds and takes tokens for a try of t that ended.
func (p *purse) ended(t *Ticket, v Verdict) {
	switch v {
	case Served:
		p.add(p.Served)
		if t.tries == 1 {
			p.add(p.First)
		}
		if p.Refund {
			p.add(t.paid)
		}
	case Failed:
		p.add(-p.Failed)
	}
	t.paid = 0
}

// pay takes the tokens of a retry of t, if there are enough.
func (p *purse) pay(t *Ticket) bool {
	if p.Max < 0 {
		return true
	}
	// Sums of many tenths are not exact, so a billionth must not decide.
	const dust = 1e-9
	if p.tokens <= p.Keep+dust || p.tokens-p.Retry < p.Keep-dust {
		return false
	}
	p.add(-p.Retry)
	t.paid = p.Retry
	return true
}

// giveBack returns the tokens of a retry that is never made.
func (p *purse) giveBack(t *Ticket) {
	p.add(t.paid)
	t.paid = 0
}
