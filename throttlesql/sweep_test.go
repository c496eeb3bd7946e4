package throttlesql

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/limit"
)

// TestSweepFor: after every eighth new row one page is swept, at most four at once, of
// rows that expired more than a minute ago.
func TestSweepFor(t *testing.T) {
	var swept []int64 // pages
	s := &Store{}
	s.Query = func(_ context.Context, sql string, args ...any) Row {
		if first, idle := args[0].(int64), args[2].(int64); !strings.Contains(sql, "_sweep") || first != -1 || idle != 60_000_000 {
			t.Errorf("statement %s of %v, want a sweep of any pages, of what expired a minute ago", sql, args)
		}
		swept = append(swept, args[1].(int64))
		return row(func(...any) error { return nil })
	}
	texts, err := s.statements()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		rows int64
		want string
	}{{0, "[]"}, {7, "[]"}, {1, "[1]"}, {0, "[]"}, {15, "[1]"}, {1, "[1]"}, {16, "[2]"}, {1000, "[4]"}, {7, "[]"}} {
		swept = nil
		if s.sweepFor(t.Context(), texts, step.rows); fmt.Sprint(swept) != step.want {
			t.Errorf("after %d more rows %v pages were swept, want %s", step.rows, swept, step.want)
		}
	}
}

// TestManyLimits: a Store that is asked for ever other limits keeps no more than
// maxLimits of them.
func TestManyLimits(t *testing.T) {
	var x limits
	for i := range int64(maxLimits + 10) {
		l := limit.Limit{Count: i + 1, Period: time.Second}
		if p := x.get(l); p.limit != l {
			t.Fatalf("get(%v) = %v", l, p.limit)
		}
	}
	kept := 0
	x.all.Range(func(any, any) bool { kept++; return true })
	if kept != maxLimits {
		t.Errorf("%d limits are kept, want %d", kept, maxLimits)
	}
}
