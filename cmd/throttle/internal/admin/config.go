// Package admin is the admin role of 'throttle serve': health, metrics, and an
// HTTP API by which operators see who is limited, and change rules while the
// program runs.
package admin

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/throttle-go/throttle/admit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/recent"
	"github.com/throttle-go/throttle/rules"
	"github.com/throttle-go/throttle/store"
	"github.com/throttle-go/throttle/throttleenvoy"
	"github.com/throttle-go/throttle/throttleotel"
)

// Config configures the admin role: its callers, and the parts that it shows and
// changes. Nothing in it may change after Serve was called with it.
type Config struct {
	// Tokens are the secrets by which callers are known. If there are none and no
	// certificates of clients are required, all that reach the listener may do
	// everything: Serve then refuses a listener beyond loopback.
	Tokens []Token
	// TLS, if not nil, is what the listener speaks. Where its ClientAuth is
	// tls.RequireAndVerifyClientCert (mTLS), a certificate is as good as a token.
	TLS *tls.Config
	// Writers are the names (common name, DNS or URI) of the certificates that may
	// write; others may read. If empty, all may write.
	Writers []string
	// Hosts are the values of the field Host that are answered beside
	// "localhost" and addresses, without a port: the names by which operators
	// reach the listener. All others are refused (DNS rebinding).
	Hosts []string
	// Pprof serves /debug/pprof/, to those that may write.
	Pprof bool
	// ShowKeys shows keys in the API and the audit log rather than digests.
	ShowKeys bool

	// Build is the version of the program, for the API and the metrics.
	Build string
	// Instance names this process to operators. If empty, the name of the host.
	Instance string
	// OTLP is the URL that metrics are pushed to by OTLP over HTTP, such as
	// http://collector:4318. If empty, they are not.
	OTLP string
	// OTLPEvery is the time from one push to the next. If zero, a minute.
	OTLPEvery time.Duration

	// Rules are the rules in use. If nil, those of the Stack; without one the API of
	// rules answers 404.
	Rules *rules.Live
	// Known are the names that rules.Request.Value and Cost understand, as given to
	// rules.Parse.
	Known []string
	// Sources are where the rules come from, in their order, by name: "xds", "file",
	// "url". The metrics and /readyz read their Status.
	Sources []Source
	// Stack has the Overlay that the API writes to, shared by all instances, and the
	// versions. If nil, or without a Shared, the API changes no rules and answers
	// 409.
	Stack *rules.Stack
	// Reload reads the files of the program again, as SIGHUP does. If nil, the API
	// does not offer it.
	Reload func(context.Context) error

	// Store counts for the rules; the API looks at keys in it and clears them. If
	// nil, the API of keys answers 404.
	Store store.Store
	// Guard is the circuit breaker in front of a remote Store. If nil, the Store
	// is in this process and never away.
	Guard *store.Guard
	// Counter has counted the decisions. If nil, the API has no counts.
	Counter *admit.Counter
	// Recent has counted the keys of the decisions. If nil, the API of top keys
	// answers 404.
	Recent *recent.Decisions
	// Peers have the top keys of other instances too. If nil, there are none.
	Peers *recent.Peers
	// Observe registers what else has metrics (leases, semaphores, shedders,
	// stores). Counter, Guard and Sources are registered already. If nil, nothing
	// more is.
	Observe func(*throttleotel.Metrics) error

	// Quota assigns quotas to Envoys. If nil, the API of quotas answers 404.
	Quota *throttleenvoy.QuotaService
	// Callers is the page of the callers of limited APIs, at /callers/. If nil, there is
	// none.
	Callers http.Handler

	// ReadyNeedsStore makes /readyz red while the Store is away. If false, it is
	// not: the fallback of the Guard decides.
	ReadyNeedsStore bool
	// Drain is closed when the program begins to end: /readyz is red from then,
	// and everything else answers until the context of Serve ends. If nil, it is
	// the context of Serve alone.
	Drain <-chan struct{}

	// Log has the audit of all writes, and what goes wrong. If nil, nothing is
	// logged; the API shows the latest events in any case.
	Log *slog.Logger
	// Journal keeps the events that the API shows: the writes, and what was logged
	// by its Logger. If nil, the writes alone.
	Journal *Journal
}

// Token is a secret that a caller presents as "Authorization: Bearer SECRET".
type Token struct {
	// Name stands for the caller in the audit log.
	Name string
	// Secret has at least 16 bytes.
	Secret string
	// Write allows everything. If false, the caller may only read.
	Write bool
}

// Source is one source of rules.
type Source struct {
	Name string
	*rules.Source
}
