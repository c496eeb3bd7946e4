package throttlesql

import (
	"fmt"

	"github.com/throttle-go/throttle/limit"
)

// maxAsks bounds the asks of one Take.
const maxAsks = 1000

// check reports what is wrong with the arguments of a Take.
func check(a []limit.Ask, d []limit.Decision) error {
	if err := limit.CheckAsks(a, d); err != nil {
		return err
	}
	if len(a) > maxAsks {
		return fmt.Errorf("throttlesql: %w: %d in one Take; at most %d", limit.ErrAsks, len(a), maxAsks)
	}
	return nil
}
