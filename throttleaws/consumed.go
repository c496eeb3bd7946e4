package throttleaws

import (
	"math"
	"reflect"
	"strings"

	"github.com/throttle-go/throttle"
	"github.com/throttle-go/throttle/pace"
)

// maxUnits bounds what is believed that one call consumed. Nothing consumes as
// much: a mistake must not stop a table for good.
const maxUnits = 1e6

// spent is what an answer says that a call consumed of one table: costs in half
// units, by scope.
type spent struct {
	costs    map[string]int64
	detailed bool // all indexes that were used are there
}

// consumption returns what the ConsumedCapacity of an answer says of a.
func consumption(result any, a ask, use string) (s spent, ok bool) {
	said := field(result, "ConsumedCapacity")
	if said.Kind() != reflect.Slice {
		return s, said.Kind() == reflect.Pointer && !said.IsNil() && s.read(said.Interface(), a, use)
	}
	for i := range said.Len() {
		of := said.Index(i).Interface()
		if tableOf(text(field(of, "TableName"))) == a.table && s.read(of, a, use) {
			ok = true
		}
	}
	return s, ok
}

// read reads one ConsumedCapacity.
func (s *spent) read(said any, a ask, use string) (ok bool) {
	table := field(said, "Table")
	indexes := field(said, "GlobalSecondaryIndexes")
	local := field(said, "LocalSecondaryIndexes")
	if lenOf(indexes)+lenOf(local) == 0 && (table.Kind() != reflect.Pointer || table.IsNil()) {
		return s.units(said, a.table, a.index, use) // of the whole
	}
	s.detailed = true
	if table.Kind() == reflect.Pointer {
		ok = s.units(table.Interface(), a.table, "", use)
	}
	for _, of := range [...]struct {
		indexes reflect.Value
		global  bool
	}{{indexes, true}, {local, false}} {
		if lenOf(of.indexes) == 0 {
			continue
		}
		for each := of.indexes.MapRange(); each.Next(); {
			index := ""
			if of.global { // with a capacity of its own
				index = each.Key().String()
			}
			ok = s.units(each.Value().Interface(), a.table, index, use) || ok
		}
	}
	return ok
}

// units adds the units of a Capacity to the scopes of a table or index. Reads
// and writes are separate in transactions only, where a write that is sent
// again reads.
func (s *spent) units(capacity any, table, index, use string) (ok bool) {
	if s.costs == nil {
		s.costs = map[string]int64{}
	}
	read, reads := number(field(capacity, "ReadCapacityUnits"))
	wrote, writes := number(field(capacity, "WriteCapacityUnits"))
	all, ok := number(field(capacity, "CapacityUnits"))
	if reads || writes {
		s.costs[scopeName(table, index, "read")] += halves(read)
		s.costs[scopeName(table, index, "write")] += halves(wrote)
		all -= read + wrote
	}
	s.costs[scopeName(table, index, use)] += halves(all)
	return ok || reads || writes
}

// halves is a number of units in half units.
func halves(units float64) int64 {
	if !(units > 0) { // nor if it is not a number
		return 0
	}
	return int64(math.Ceil(min(units, maxUnits)*PerUnit - 1e-6))
}

// number returns what a *float64 points to.
func number(v reflect.Value) (n float64, ok bool) {
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Float64 {
		return 0, false
	}
	return v.Elem().Float(), true
}

// lenOf is the length of a map, zero of anything else.
func lenOf(v reflect.Value) int {
	if v.Kind() != reflect.Map {
		return 0
	}
	return v.Len()
}

// bill returns what a try says of the scopes of the call: what it cost there,
// and which of them refused it.
func (c *call) bill(r pace.Report) (all []throttle.ScopeResult) {
	use, partly := uses(c.Call), c.err == nil && undone(c.out.Result)
	blamed := map[string]ask{}
	if r.Verdict == pace.Throttled {
		blamed = c.blamed(use)
	}
	for _, a := range c.asks {
		s, ok := consumption(c.out.Result, a, use)
		if !ok || c.err != nil {
			continue
		}
		if !partly {
			c.attempts.gates.book.learn(a, s.costs, s.detailed)
		}
		for scope, cost := range s.costs {
			if _, refused := blamed[scope]; refused || cost == 0 && scope != a.scope {
				continue
			}
			served := pace.Report{Verdict: pace.Served, Cost: max(cost, 1)}
			all = append(all, throttle.ScopeResult{Need: throttle.Need{Scope: scope, Cost: cost}, Report: served})
		}
	}
	for scope, a := range blamed {
		c.attempts.gates.book.blame(a, scope)
		refused := pace.Report{Verdict: pace.Throttled, After: r.After, Final: r.Final}
		if s, ok := consumption(c.out.Result, a, use); ok && c.err == nil {
			refused.Cost = max(s.costs[scope], 1)
		}
		all = append(all, throttle.ScopeResult{Need: throttle.Need{Scope: scope, Cost: a.known}, Report: refused})
	}
	return all
}

// blamed returns the scopes that refused a try, each with what was asked of its
// table: those that the answer names, else all that the call named. It is empty
// if the account refused.
func (c *call) blamed(use string) map[string]ask {
	blamed := map[string]ask{}
	of := func(table, index, use string) {
		for _, a := range c.asks {
			if a.table == table {
				blamed[scopeName(table, index, use)] = a
			}
		}
	}
	for _, why := range reasons(c.err) {
		table, index, _ := strings.Cut(tableOf(why.Resource), "/index/")
		switch {
		case strings.Contains(why.Reason, "Read"):
			of(table, index, "read")
		case strings.Contains(why.Reason, "Write"):
			of(table, index, "write")
		default:
			of(table, index, use)
		}
	}
	for _, table := range c.refusedTables() {
		of(table, "", use)
	}
	if len(blamed) > 0 || code(c.err) == "RequestLimitExceeded" {
		return blamed
	}
	for _, a := range c.asks {
		blamed[a.scope] = a
	}
	return blamed
}

// refusedTables returns the tables whose part of a batch an answer left undone,
// or whose throughput was too low for a transaction.
func (c *call) refusedTables() (tables []string) {
	for _, name := range [...]string{"UnprocessedItems", "UnprocessedKeys"} {
		if v := field(c.out.Result, name); c.err == nil && v.Kind() == reflect.Map {
			for _, key := range v.MapKeys() {
				tables = append(tables, tableOf(key.String()))
			}
		}
	}
	items := field(c.Input, "TransactItems")
	for i, short := range short(c.err) {
		if !short || items.Kind() != reflect.Slice || i >= items.Len() {
			continue
		}
		if part, ok := partOf(items.Index(i)); ok {
			tables = append(tables, tableOf(text(field(part, "TableName"))))
		}
	}
	return tables
}
