package find

import (
	"fmt"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/outgoing"
	"github.com/throttle-go/throttle/cmd/throttle/internal/words"
)

// consent asks before anything is sent to another machine, unless -yes was said.
func (o *options) consent(stdin io.Reader, stderr io.Writer) error {
	if o.command != nil || outgoing.Loopback(o.request.URL) {
		return nil
	}
	o.request.Away = true
	if o.yes {
		return nil
	}
	without := fmt.Sprintf("find: %s is not this machine, and there is no terminal to ask on; say -yes if you may load it", words.Quote(o.request.URL.Hostname()))
	return outgoing.Ask(o.question(), without, stdin, stderr)
}

func (o *options) question() string {
	b := o.search.Bounds
	return fmt.Sprintf("Load %s, until it fails, with up to %s requests in up to %s?",
		o.request.URL.Host, words.Whole(int64(b.Requests)), words.Short(b.Time))
}
