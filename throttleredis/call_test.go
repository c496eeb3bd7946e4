package throttleredis

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/throttle-go/throttle/internal/bubble"
)

// TestReplacedOnce: a process that was replaced is counted once, also where several
// calls were in flight, and an answer of the process before that comes later does not
// bring it back.
func TestReplacedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		history := func(process string) string {
			return strings.Repeat(process, processLen) + string(appendInt(nil, 1)) + "l"
		}
		since := string(appendInt(nil, 77))
		var headers []string
		calls := make(chan chan string, 9)
		s := &Store{MaxBatch: -1, Do: func(_ context.Context, args ...any) (any, error) {
			headers = append(headers, args[5].(string))
			reply := make(chan string)
			calls <- reply
			return <-reply, nil
		}}
		ask := func(n int) (asked []chan string) {
			for range n {
				go func() {
					if err := one(t.Context(), s, "a"); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				asked = append(asked, <-calls)
			}
			return asked
		}
		answer := func(call chan string, about string) {
			call <- answered(late, about, fresh)
			synctest.Wait()
		}
		answer(ask(1)[0], since+history("1"))
		inFlight := ask(3)
		answer(inFlight[0], since+history("2"))
		answer(inFlight[1], since+history("2"))
		answer(inFlight[2], since) // by the process before
		answer(ask(1)[0], "")
		if last := headers[len(headers)-1]; !strings.HasSuffix(last, history("2")) {
			t.Errorf("the last call says %q, want that the second process was met", last)
		}
		if n := s.Stats().Replaced; n != 1 {
			t.Errorf("Replaced is %d, want 1", n)
		}
	})
}
