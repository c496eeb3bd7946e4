package replay

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/cmd/throttle/internal/infile"
	"github.com/throttle-go/throttle/cmd/throttle/internal/tree"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/limit"
	"github.com/throttle-go/throttle/rules"
)

// known are the values and costs that -fields name.
func (o *options) known() (all []string) {
	for _, f := range o.fields {
		kind, name, _ := strings.Cut(f.Target, ":")
		if k := accesslog.Kind(kind); k == accesslog.Value || k == accesslog.Cost {
			all = append(all, name)
		}
	}
	return all
}

// versions reads all rules that are to be compared, and adds notes on what of them is
// not replayed.
func (w *work) versions(stdin io.Reader) (all []*rules.Compiled, err error) {
	known := w.known()
	for _, name := range w.rules {
		c, err := compile(name, stdin, known)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
		w.labels = append(w.labels, name)
		w.leftOut(name, c.Set())
	}
	for _, x := range w.factors {
		c, err := rules.Compile(times(all[0].Set(), x), known...)
		if err != nil {
			return nil, usage.Errorf("replay: -factor %g: %v", x, err)
		}
		all = append(all, c)
		w.labels = append(w.labels, w.rules[0]+" × "+words.Number(x))
	}
	return all, nil
}

// compile reads a file of rules. The error is one line with the place.
func compile(name string, stdin io.Reader, known []string) (*rules.Compiled, error) {
	text, err := read(name, stdin)
	if err != nil {
		return nil, usage.Errorf("replay: %v", err)
	}
	root, err := tree.Rules(text)
	var c *rules.Compiled
	if err == nil {
		c, err = rules.ParseNode(root, known...)
	}
	if e := (*rules.Error)(nil); errors.As(err, &e) {
		place := name
		if e.Line > 0 {
			place += fmt.Sprintf(":%d:%d", e.Line, e.Column)
		}
		what := strings.TrimPrefix(e.Path+": ", ": ") + e.What
		if strings.Contains(e.What, "unknown part") || strings.Contains(e.What, "the program knows no") {
			what += "; what the log knows is named by -fields value:NAME=SOURCE or cost:NAME=SOURCE"
		}
		return nil, usage.Errorf("replay: %s: %s", place, what)
	}
	if err != nil {
		return nil, usage.Errorf("replay: %s: %v", name, err)
	}
	return c, nil
}

// read reads a file, and no more of it than rules may have.
func read(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(stdin, rules.MaxSize+1))
	}
	f, err := infile.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	return io.ReadAll(io.LimitReader(f, rules.MaxSize+1))
}

// mostVersion bounds the bytes of a version.
const mostVersion = 64

// times returns rules with each limit times x, and a version that ends with x. A limit is at least 1.
func times(s rules.Set, x float64) rules.Set {
	factor := "-x" + strconv.FormatFloat(x, 'f', -1, 64)
	s.Version = strings.Trim(s.Version[:min(len(s.Version), mostVersion-len(factor))]+factor, "-")
	all := func(limits []rules.Limit) {
		for i := range limits {
			limits[i].Count = scaled(limits[i].Count, x)
			limits[i].Burst = scaled(limits[i].Burst, x)
			if limits[i].Kind == limit.SlidingLog {
				limits[i].Count = min(limits[i].Count, limit.MaxLog)
			}
		}
	}
	for i := range s.Rules {
		r := &s.Rules[i]
		all(r.Limits)
		all(r.Shadow.Limits)
		for j := range r.Overrides {
			all(r.Overrides[j].Limits)
		}
	}
	return s
}

func scaled(n int64, x float64) int64 {
	if n <= 0 {
		return n
	}
	return max(int64(min(float64(n)*x+0.5, 1<<53)), 1)
}

// leftOut notes what of the rules a log cannot tell.
func (w *work) leftOut(name string, s rules.Set) {
	var described []string
	for _, r := range s.Rules {
		if (len(r.Match.Domains) > 0 || len(r.Match.Descriptor) > 0) && !r.Off {
			described = append(described, r.Name)
			continue
		}
		if r.InFlight > 0 || r.Shadow.InFlight > 0 {
			w.notes = append(w.notes, fmt.Sprintf("%s: rule %s: requests in flight are not replayed", name, r.Name))
		}
		if r.Cost.Name != "" && !w.has(accesslog.Cost, r.Cost.Name) {
			w.notes = append(w.notes, fmt.Sprintf("%s: rule %s: each request costs 1, as -fields names no cost:%s", name, r.Name, r.Cost.Name))
		}
	}
	if n := len(described); n > 0 {
		w.notes = append(w.notes, fmt.Sprintf("%s: no log has descriptors of Envoy, so %s for them refuse nothing here: %s",
			name, words.Plural(n, "rule", "rules"), words.First(5, described)))
	}
	if len(s.Rules) == 0 {
		w.notes = append(w.notes, name+": no rules; nothing is limited")
	}
}

func (w *work) has(kind accesslog.Kind, name string) bool {
	for _, f := range w.fields {
		if f.Target == string(kind)+":"+name {
			return true
		}
	}
	return false
}
