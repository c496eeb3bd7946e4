package report

import "github.com/throttle-go/throttle/sim"

// column is how a measure is shown.
type column struct {
	Name  string  `json:"name"`
	Label string  `json:"label"`
	Unit  string  `json:"unit"`
	About string  `json:"about"`
	Scale float64 `json:"scale"` // by which the figure is multiplied to be shown
	Whole bool    `json:"whole"` // is shown without decimals
	// Better is as in sim.Measure.
	Better int `json:"better"`
}

// shown are the measures that have words, in the order of the table.
var shown = [...]column{
	{Name: "retry_rate", Label: "Retry rate", Unit: "%", Scale: 100, About: "Throttled answers among all requests sent."},
	{Name: "utilisation", Label: "Utilisation", Unit: "%", Scale: 100, About: "What was served, of what the server could have served."},
	{Name: "finish_s", Label: "Finish", Unit: "s", Scale: 1, About: "When the last piece of work was served, or the run was stopped."},
	{Name: "throughput", Label: "Throughput", Unit: "per s", Scale: 1, About: "Requests served a second."},
	{Name: "goodput", Label: "Goodput", Unit: "per s", Scale: 1, About: "Calls served in time a second."},
	{Name: "in_time", Label: "In time", Unit: "%", Scale: 100, About: "Calls served in time, of those that were made: others came late, were given up or failed for good."},
	{Name: "reconverge_s", Label: "Reconverge", Unit: "s", Scale: 1, About: "The longest time that it took to use a changed capacity to 95 %."},
	{Name: "wait_p50_s", Label: "Wait, median", Unit: "s", Scale: 1, About: "From wanting to call to success: half of the calls took no longer."},
	{Name: "wait_p99_s", Label: "Wait, p99", Unit: "s", Scale: 1, About: "From wanting to call to success: 99 of 100 calls took no longer."},
	{Name: "max_sleep_s", Label: "Max sleep", Unit: "s", Scale: 1, About: "The longest that a worker was held back before it sent."},
	{Name: "jain", Label: "Jain", Unit: "clients", Scale: 1, About: "Jain's index of fairness between clients: 1 if all were served equally."},
	{Name: "jain_workers", Label: "Jain", Unit: "workers", Scale: 1, About: "Jain's index of fairness between workers."},
	{Name: "stdev_requests", Label: "Std. dev.", Unit: "requests", Scale: 1, About: "Standard deviation of the number of requests that each worker sent: 0 if all sent as many."},
	{Name: "sent", Label: "Sent", Unit: "requests", Scale: 1, Whole: true, About: "Requests sent."},
	{Name: "served", Label: "Served", Unit: "requests", Scale: 1, Whole: true, About: "Requests served."},
	{Name: "throttled", Label: "Throttled", Unit: "requests", Scale: 1, Whole: true, About: "Requests refused for load."},
	{Name: "retry_rate_worker_mean", Label: "Retry rate", Unit: "% worker mean", Scale: 100, About: "The mean of the workers' own retry rates."},
}

// columns are all measures: those in shown, then any others.
func columns() []column {
	better := map[string]int{}
	for _, m := range sim.Measures {
		better[m.Name] = m.Better
	}
	var all []column
	for _, c := range shown {
		b, ok := better[c.Name]
		if !ok {
			continue
		}
		c.Better = b
		all = append(all, c)
		delete(better, c.Name)
	}
	for _, m := range sim.Measures {
		if _, left := better[m.Name]; left {
			all = append(all, column{Name: m.Name, Label: m.Name, Scale: 1, Better: m.Better})
		}
	}
	return all
}
