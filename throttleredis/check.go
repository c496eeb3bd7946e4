package throttleredis

import (
	"fmt"

	"github.com/throttle-go/throttle/limit"
)

// maxAsks bounds the asks of one Take: the script reads their number in one byte.
const maxAsks = 255

// check reports what is wrong with the arguments of a Take.
func check(a []limit.Ask, d []limit.Decision) error {
	if err := limit.CheckAsks(a, d); err != nil {
		return err
	}
	if len(a) > maxAsks {
		return fmt.Errorf("throttleredis: %w: %d in one Take; at most %d", limit.ErrAsks, len(a), maxAsks)
	}
	return nil
}
