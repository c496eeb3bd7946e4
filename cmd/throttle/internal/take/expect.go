package take

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
	"github.com/throttle-go/throttle/cmd/throttle/internal/usage"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
	"github.com/throttle-go/throttle/throttleredis"
)

// nobody takes an announcement back.
const nobody = "none"

var runID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// checkExpect checks the arguments of -expect, which asks for no key.
func (t *taking) checkExpect(flags *flag.FlagSet, names []string) (err error) {
	switch {
	case len(names) > 0:
		return usage.Errorf("take: %s: -expect announces a fail-over and takes nothing; leave RULE and KEY out", words.Quote(names[0]))
	case t.expect != nobody && !runID.MatchString(t.expect):
		return usage.Errorf("take: -expect %s: must be the run_id of a Redis process, 40 hexadecimal digits, as INFO server has it, or none", words.Quote(t.expect))
	case t.within < time.Microsecond || t.within > throttleredis.MaxExpect:
		return usage.Errorf("take: -within %v: must be above zero and at most %v", t.within, throttleredis.MaxExpect)
	case t.timeout <= 0:
		return usage.Errorf("take: -timeout %v: must be above zero", t.timeout)
	}
	flags.Visit(func(f *flag.Flag) {
		if err == nil && !slices.Contains([]string{"expect", "within", "store", "timeout"}, f.Name) {
			err = usage.Errorf("take: -%s: is not for -expect, which takes nothing", f.Name)
		}
	})
	return err
}

// announce announces a planned fail-over.
func (t *taking) announce(ctx context.Context, s *stores.Named, stdout io.Writer) error {
	r, ok := s.Store.(*throttleredis.Store)
	if !ok {
		return usage.Errorf("take: -expect: is for a store in Redis, and %s is none; name it by -store redis://HOST", s.Name)
	}
	err, says := error(nil), "no fail-over is announced any more"
	if t.expect == nobody {
		err = r.Unexpect(ctx)
	} else {
		err = r.Expect(ctx, t.expect, t.within)
		says = fmt.Sprintf("announced: %s may take over within %v; all goes on as before then", t.expect, t.within)
	}
	if err != nil {
		return exit.Failf("take: %s: %v", s.Name, err)
	}
	_, err = fmt.Fprintln(stdout, says)
	return err
}
