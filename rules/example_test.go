package rules_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/throttle-go/throttle/memory"
	"github.com/throttle-go/throttle/rules"
)

// Rules on a net/http server, by hand. Load once for each request, so that one
// decision is of one version.
func ExampleCompiled_Decide() {
	var live rules.Live
	c, err := rules.Parse([]byte(`{
		"proxies": {"trusted": "10.0.0.0/8"},
		"rules": [{"name": "per-address", "key": "address", "limits": "2/day"}]
	}`))
	if err != nil {
		log.Fatal(err)
	}
	live.Swap(c)
	var store memory.Store

	allowed := func(r *http.Request) bool {
		c := live.Load()
		remote, _ := netip.ParseAddrPort(r.RemoteAddr) // a Unix socket has none
		a, err := c.Decide(r.Context(), &store, rules.Request{
			Method: r.Method, Host: r.Host, Path: r.URL.Path, Header: r.Header.Get,
			Address: c.ClientAddress(remote.Addr(), r.Header.Values),
		})
		if err != nil {
			return true // could not decide: pass, or refuse, on purpose
		}
		if !a.OK {
			fmt.Println(a.Rule, a.Reason, "retry after", a.Decision.RetryAfter.Round(time.Hour))
		}
		return a.OK
	}
	r, _ := http.NewRequest("GET", "https://api.example.org/", nil)
	r.RemoteAddr = "10.0.0.1:4711"
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 192.0.2.1")
	fmt.Println(allowed(r), allowed(r), allowed(r))
	// Output:
	// per-address over retry after 12h0m0s
	// true true false
}

// Rules that are refreshed from a URL, and survive its outages.
func ExampleSource() {
	src := rules.Source{
		Fetch:   rules.FromURL(http.DefaultClient, "http://127.0.0.1:1/rules.json"),
		Keep:    "/nowhere/rules.json",
		OnState: func(s rules.Status) { fmt.Println(s.Refreshes, s.Failures, s.Version, s.Err != nil) },
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := src.Refresh(ctx); err != nil {
		// Limit no request, or do not start: on purpose.
		fmt.Println("no rules yet")
	}
	go src.Run(ctx) // until ctx ends
	stop()
	// Output:
	// 1 1  true
	// no rules yet
}

// Rules made in Go, as JSON.
func ExampleSet() {
	set := rules.Set{Rules: []rules.Rule{{
		Name:      "per-customer",
		Match:     rules.Match{Paths: []string{"/api/*"}},
		Key:       rules.Key{"customer"},
		Limits:    []rules.Limit{{Count: 10, Period: time.Second, Burst: 20}, {Count: 1000, Period: time.Hour}},
		Overrides: []rules.Override{{Key: []string{"acme"}, Limits: []rules.Limit{{}}}},
	}}}
	if _, err := rules.Compile(set, "customer"); err != nil {
		log.Fatal(err)
	}
	text, _ := json.MarshalIndent(set, "", "  ")
	fmt.Println(string(text))
	// Output:
	// {
	//   "rules": [
	//     {
	//       "name": "per-customer",
	//       "match": {
	//         "paths": [
	//           "/api/*"
	//         ]
	//       },
	//       "key": "customer",
	//       "limits": [
	//         "10/s burst 20",
	//         "1000/h"
	//       ],
	//       "overrides": [
	//         {
	//           "key": [
	//             "acme"
	//           ],
	//           "limits": [
	//             "unlimited"
	//           ]
	//         }
	//       ]
	//     }
	//   ]
	// }
}

// A raise for an hour by hand, on top of a file, for all instances that share the
// document: here a file, elsewhere a throttleredis.Document.
func ExampleStack() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := func(context.Context, string) ([]byte, string, error) {
		return []byte(`{"version": "v1", "rules": {"name": "per-client", "key": "client", "limits": "10/s"}}`), "", nil
	}
	stack := rules.Stack{
		Sources: []*rules.Source{{Fetch: file}},
		Shared:  &rules.File{Path: filepath.Join(dir, "overlay.json")},
	}
	ctx := context.Background()
	if err := stack.Refresh(ctx); err != nil { // then: go stack.Run(ctx)
		log.Fatal(err)
	}
	err = stack.Edit(ctx, rules.Note{Why: "launch", By: "jane"}, func(o *rules.Overlay) error {
		o.PutOverride("per-client", rules.Override{
			Key: []string{"acme"}, Limits: []rules.Limit{{Count: 200, Period: time.Second}},
			Note: rules.Note{Until: time.Date(2126, 12, 1, 0, 0, 0, 0, time.UTC)},
		})
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range stack.Versions()[1:] {
		fmt.Println(v.Name, v.Changes[1:])
	}
	a, err := stack.Live.Load().Decide(ctx, new(memory.Store), rules.Request{Client: "acme"})
	fmt.Println(a.Limit, err)
	// Output:
	// v1.1 [rule per-client: override for acme: added, limits 200/s until 2126-12-01T00:00:00Z]
	// 200/s <nil>
}
