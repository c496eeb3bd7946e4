package table

import (
	"fmt"
	"strings"

	"github.com/throttle-go/throttle/cmd/throttle/internal/batch"
	"github.com/throttle-go/throttle/cmd/throttle/internal/measures"
)

// publication is what the README of zombocom/rate_throttle_client prints of one
// policy.
type publication struct {
	policy                         string
	retryRate, maxSleep, deviation float64
	clear                          float64
}

var published = []publication{
	{"backoff", 80.41, 46.72, 147.84, 74.33},
	{"gradual", 40.56, 139.91, 867.73, 115.54},
	{"proportional", 3.66, 17.31, 101.94, 551.10},
	{"proportional-remaining", 3.07, 17.32, 78.44, 84.23},
}

// writePublished writes, below the tables of the scenarios that are this
// benchmark, its published figures beside ours.
func writePublished(b *strings.Builder, r batch.Result) {
	compared := []comparison{
		{"retry_rate_worker_mean", "retry rate %", 100, func(p publication) float64 { return p.retryRate }},
		{"max_sleep_s", "max sleep s", 1, func(p publication) float64 { return p.maxSleep }},
		{"stdev_requests", "stdev requests", 1, func(p publication) float64 { return p.deviation }},
	}
	switch r.Scenario.Name {
	case "heroku":
	case "heroku-clear":
		compared = []comparison{{"finish_s", "time to clear s", 1, func(p publication) float64 { return p.clear }}}
	default:
		return
	}
	var lines strings.Builder
	for _, p := range published {
		for _, row := range r.Rows {
			if row.Policy == p.policy {
				fmt.Fprintf(&lines, "%s%s\n", Fill(p.policy, publishedLeft), compare(compared, p, row))
			}
		}
	}
	if lines.Len() == 0 {
		return
	}
	head := Fill("published by rate_throttle_client,", publishedLeft)
	under := Fill("and simulated here (median)", publishedLeft)
	for _, c := range compared {
		head += Pad(c.name, publishedCell)
		under += Pad("published  here", publishedCell)
	}
	fmt.Fprintf(b, "\n%s\n%s\n%s", head, under, lines.String())
}

const (
	publishedLeft = 34
	publishedCell = 20
)

// comparison is a measure that was published.
type comparison struct {
	measure, name string
	scale         float64
	published     func(publication) float64
}

func compare(compared []comparison, p publication, row batch.Row) (line string) {
	for _, c := range compared {
		ours := CellOf(row.Summary.Stats[measures.At(c.measure)], c.scale).Median
		line += Pad(fmt.Sprintf("%.2f %s", c.published(p), Pad(ours, 5)), publishedCell)
	}
	return line
}
