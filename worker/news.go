package worker

import (
	"log/slog"
	"time"
)

const logEvery = 10 * time.Minute

// news are the events to report once the lock is released.
type news struct {
	events []Event
	none   Event // written to in the place of one that nobody wants
}

// add adds e if it is wanted, and returns it to be completed, before the next.
func (n *news) add(wanted bool, e Event) *Event {
	if !wanted {
		return &n.none
	}
	n.events = append(n.events, e)
	return &n.events[len(n.events)-1]
}

// rested completes the first event.
func (n *news) rested(d time.Duration) {
	if len(n.events) > 0 {
		n.events[0].Rest = d
	}
}

// event returns an event of it.
func (it *item[R]) event(k EventKind, now time.Time, err error) Event {
	return Event{Kind: k, At: now, Name: it.of.name, Offset: it.offset, Try: it.tries, MayHaveRun: it.mayHaveRun, Err: err}
}

// tell reports events; not under the lock.
func (w *Worker[R]) tell(n news) {
	for _, e := range n.events {
		switch {
		case w.OnEvent != nil:
			w.OnEvent(e)
		case e.Kind == Stops:
			slog.Error("worker: an assignment stops, as a record was given up; set Dead to go on", "name", e.Name, "offset", e.Offset, "try", e.Try, "err", e.Err)
		case e.Kind == Opens:
			slog.Warn("worker: the circuit breaker opens; set OnEvent to hear of all", "name", e.Name, "err", e.Err)
		}
	}
}
