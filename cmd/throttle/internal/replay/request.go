package replay

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/accesslog"
	"github.com/throttle-go/throttle/rules"
)

// translator makes requests of entries. Its functions look at the entry at hand, so that
// none has to be made for each.
type translator struct {
	e       *accesslog.Entry
	f       *accesslog.Format
	request rules.Request // with the functions
}

// of returns the request of an entry at a time, valid until the next call.
func (t *translator) of(e *accesslog.Entry, f *accesslog.Format, at time.Time, first *rules.Compiled) rules.Request {
	if t.request.Header == nil {
		t.request = rules.Request{Header: t.header, Value: t.value, Cost: t.cost}
	}
	t.e, t.f = e, f
	r := t.request
	r.Now, r.Method, r.Host, r.Path, r.RawPath, r.Client = at, e.Method, e.Host, e.Path, e.RawPath, e.Client
	r.Address = addressOf(e, first)
	if r.Path == "" {
		r.Path = "/"
	}
	return r
}

func (t *translator) header(name string) string {
	switch name {
	case "Referer":
		return t.e.Referer
	case "User-Agent":
		return t.e.Agent
	case "X-Forwarded-For":
		return t.e.Forwarded
	}
	text, _ := t.more(accesslog.Header, name)
	return text
}

func (t *translator) value(name string) (string, bool) { return t.more(accesslog.Value, name) }

// cost returns a number of the log, rounded up; 1 where there is none.
func (t *translator) cost(name string) int64 {
	text, _ := t.more(accesslog.Cost, name)
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) {
		return 1
	}
	return int64(math.Ceil(min(max(x, 0), 1<<53)))
}

func (t *translator) more(kind accesslog.Kind, name string) (string, bool) {
	if t.e.More == nil {
		return "", false
	}
	for i, n := range t.f.Names {
		if n.Kind == kind && n.Text == name {
			return t.e.More[i], t.e.More[i] != ""
		}
	}
	return "", false
}

// mostSpread bounds the requests of one second that are spread over it; those beyond
// come at its end.
const mostSpread = 20_000

// spreader gives the entries of a log at the times at which they are decided.
type spreader struct {
	log *accesslog.Reader
	on  bool

	second []*accesslog.Entry // of one time, a whole second
	over   bool               // they are those beyond mostSpread
	format []*accesslog.Format
	at     int
	e      *accesslog.Entry // the one after
	f      *accesslog.Format
	ended  bool
}

// next returns the next entry and its time; nil at the end.
func (s *spreader) next(ctx context.Context) (*accesslog.Entry, *accesslog.Format, time.Time, error) {
	if !s.on {
		e, f, err := s.log.Next(ctx)
		if e == nil {
			return nil, nil, time.Time{}, err
		}
		return e, f, e.Time, err
	}
	if s.at == len(s.second) {
		if err := s.gather(ctx); err != nil || len(s.second) == 0 {
			return nil, nil, time.Time{}, err
		}
	}
	e, f := s.second[s.at], s.format[s.at]
	at := e.Time
	switch {
	case at.Nanosecond() != 0:
	case s.over:
		at = at.Add(time.Second - 1)
	default:
		at = at.Add(time.Second * time.Duration(s.at) / time.Duration(len(s.second)))
	}
	s.at++
	return e, f, at, nil
}

// gather reads all entries of the next time.
func (s *spreader) gather(ctx context.Context) (err error) {
	var full time.Time // of which there may be more
	if len(s.second) == mostSpread {
		full = s.second[0].Time
	}
	s.second, s.format, s.at = s.second[:0], s.format[:0], 0
	for len(s.second) < mostSpread {
		if s.e == nil && !s.ended {
			if s.e, s.f, err = s.log.Next(ctx); err != nil {
				return err
			}
			s.ended = s.e == nil
		}
		if s.e == nil || len(s.second) > 0 && !s.e.Time.Equal(s.second[0].Time) {
			return nil
		}
		if len(s.second) == 0 {
			s.over = s.e.Time.Equal(full)
		}
		s.second, s.format, s.e = append(s.second, s.e), append(s.format, s.f), nil
	}
	return nil
}
