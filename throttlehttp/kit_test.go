package throttlehttp

import (
	"net/http"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/load"
	"github.com/throttle-go/throttle/rules"
)

// A fill sets a field of what a Control decides about.
type fill = func(*http.Request, *admit.Request)

// requests returns a Handler.Request that sets fields.
func requests(all ...fill) func(*http.Request, admit.Request) admit.Request {
	return func(r *http.Request, q admit.Request) admit.Request {
		for _, f := range all {
			f(r, &q)
		}
		return q
	}
}

func byKey(key func(*http.Request) string) fill {
	return func(r *http.Request, q *admit.Request) { q.Key = key(r) }
}

func byClient(client func(*http.Request) string) fill {
	return func(r *http.Request, q *admit.Request) { q.Client = client(r) }
}

func byCaller(caller func(*http.Request) string) fill {
	return func(r *http.Request, q *admit.Request) {
		if caller != nil {
			q.Caller = caller(r)
		}
	}
}

func byPriority(priority func(*http.Request) load.Priority) fill {
	return func(r *http.Request, q *admit.Request) { q.Priority = priority(r) }
}

func byCost(cost func(*http.Request) int64) fill {
	return func(r *http.Request, q *admit.Request) { q.Cost = func(string) int64 { return cost(r) } }
}

func byFill(more func(*http.Request, rules.Request) rules.Request) fill {
	return func(r *http.Request, q *admit.Request) { q.Request = more(r, q.Request) }
}
