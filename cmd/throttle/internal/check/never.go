package check

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/config"
	"github.com/throttle-go/throttle/cmd/throttle/internal/gateway"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/rules"
)

// never warns of what the rules ask for and no request behind the gateway has: a client
// that nobody states, an address behind Unix sockets, and header fields that it removes. A limit by such a key is one for
// everybody, and an entry of deny refuses nobody.
func (f *found) never() (all []string) {
	if f.file.Gateway == nil {
		return nil
	}
	s := f.rules.Set()
	for _, r := range s.Rules {
		if r.Off || described(r) {
			continue
		}
		warn := func(format string, a ...any) {
			all = append(all, fmt.Sprintf("%s: rule %s: %s", f.rulesOf, r.Name, fmt.Sprintf(format, a...)))
		}
		if r.Match.Client == rules.Known && f.absent("client") != "" {
			warn("client known: it is for no request, as %s", f.absent("client"))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Match.Headers)) {
			if why := f.absent("header:" + name); why != "" {
				warn("header %s: it is for no request, as %s", words.Quote(name), why)
			}
		}
		for _, part := range r.Key {
			if why := f.absent(part); why != "" {
				warn("key %s: it is missing in each request, as %s", words.Quote(part), why)
			}
		}
	}
	entries := func(list string, in []rules.Entry) {
		for _, e := range in {
			part, _, pattern := strings.Cut(e.Text, "=")
			kind := part
			if !pattern { // an address or a network
				kind = "address"
			}
			if why := f.absent(kind); why != "" {
				all = append(all, fmt.Sprintf("%s: %s %s: it is for no request, as %s", f.rulesOf, list, words.Quote(part), why))
			}
		}
	}
	entries("deny", s.Deny)
	entries("allow", s.Allow)
	return all
}

// described reports whether a rule is for descriptors of Envoy.
func described(r rules.Rule) bool { return len(r.Match.Domains) > 0 || len(r.Match.Descriptor) > 0 }

// roleless warns of rules for which the file has no role: those for descriptors need one
// for Envoy, and all others a gateway.
func (f *found) roleless() (all []string) {
	for _, r := range f.rules.Set().Rules {
		switch {
		case r.Off:
		case described(r) && f.file.Envoy == nil:
			all = append(all, fmt.Sprintf("%s: rule %s: it is for descriptors of Envoy, and there is no envoy section", f.rulesOf, r.Name))
		case !described(r) && f.file.Gateway == nil && f.file.Envoy != nil:
			all = append(all, fmt.Sprintf("%s: rule %s: it is for no descriptor, and there is no gateway; write domains or descriptor into its match", f.rulesOf, r.Name))
		}
	}
	return all[:min(len(all), 10)]
}

// unsorted warns of rules that are for no bucket of the quota service, as a match has its
// entries in another order.
func (f *found) unsorted() (all []string) {
	if f.file.Envoy == nil || f.file.Envoy.Quota == nil {
		return nil
	}
	for _, r := range f.rules.Set().Rules {
		var entries []string
		for _, p := range r.Match.Descriptor {
			entries = append(entries, p.Key)
		}
		if !r.Off && !slices.IsSorted(entries) {
			all = append(all, fmt.Sprintf("%s: rule %s: it is for no bucket of the quota service, whose entries stand in the order of their keys: %s",
				f.rulesOf, r.Name, words.First(5, slices.Sorted(slices.Values(entries)))))
		}
	}
	return all[:min(len(all), 10)]
}

// keyless warns of parts of keys that no descriptor has for which a rule is, as its match
// has all entries: all of them share one key.
func (f *found) keyless() (all []string) {
	for _, r := range f.rules.Set().Rules {
		if r.Off || len(r.Match.Descriptor) == 0 {
			continue
		}
		has := map[string]bool{}
		var entries []string
		for _, p := range r.Match.Descriptor {
			has["entry:"+p.Key], entries = true, append(entries, words.Quote(p.Key))
		}
		has["address"] = has["entry:remote_address"] || has["entry:masked_remote_address"]
		for _, part := range r.Key {
			if (part == "address" || strings.HasPrefix(part, "entry:")) && !has[part] {
				all = append(all, fmt.Sprintf("%s: rule %s: key %s: it is missing in each descriptor, as the match is for those of %s alone",
					f.rulesOf, r.Name, words.Quote(part), words.First(5, entries)))
			}
		}
	}
	return all[:min(len(all), 10)]
}

// encoded is what a pattern has that was written as paths stand in a request line.
var encoded = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// odd warns of patterns of paths that hardly any path matches: a path is compared
// decoded and without its query, and in it '?' and '%' are rare.
func (f *found) odd() (all []string) {
	warn := func(where, pattern string) {
		why := ""
		switch {
		case strings.Contains(pattern, "?"):
			why = "paths are compared without their query"
		case encoded.MatchString(pattern):
			why = "paths are compared decoded"
		default:
			return
		}
		all = append(all, fmt.Sprintf("%s: %s %s: it is for hardly any request, as %s", f.rulesOf, where, words.Quote(pattern), why))
	}
	s := f.rules.Set()
	for _, r := range s.Rules {
		for _, pattern := range r.Match.Paths {
			warn("rule "+r.Name+": path", pattern)
		}
	}
	for i, e := range slices.Concat(s.Deny, s.Allow) {
		list := "allow"
		if i < len(s.Deny) {
			list = "deny"
		}
		if pattern, ok := strings.CutPrefix(e.Text, "path="); ok {
			warn(list+" path", pattern)
		}
	}
	return all
}

// absent says why no request has a part of a key, or is empty.
func (f *found) absent(part string) string {
	g := f.file.Gateway
	if part == "client" && g.Identity == nil {
		return "no client is known without gateway.identity"
	}
	if part == "address" && !slices.ContainsFunc(g.Listen, func(s config.Socket) bool { return !strings.HasPrefix(string(s.Address), "unix:") }) {
		return "connections to a unix socket have no address, and no proxy there is trusted to state one; listen on HOST:PORT"
	}
	name, isHeader := strings.CutPrefix(part, "header:")
	if !isHeader {
		return ""
	}
	// Rules of a URL may trust proxies too.
	trusting := len(g.Proxies) > 0 || len(f.rules.Set().Proxies.Trusted) > 0 || f.file.Rules.URL != ""
	return gateway.Removes(name, g.Underscores, trusting)
}
