package assign

import "slices"

// Unknown is the Demand of a proxy that has not reported one yet.
const Unknown Rate = -1

// Share is the part of one proxy in a limit: its demand, and its assignment.
type Share struct {
	// Demand is the rate that it would use. Unknown counts as an equal part, were there one more.
	Demand Rate
	// Told is the rate that was assigned last, if it Has an assignment.
	Told Rate
	Has  bool
	// Held is the most that it may be using: Told, or what it had before, until it has
	// reported after it was told.
	Held Rate
	// Lost proxies keep what they hold, and get nothing.
	Lost bool

	// Target is set by Divide: its fair part of the supply.
	Target Rate
	// Next is set by Divide: the rate to assign now. If it equals Told, nothing changes.
	Next Rate
}

// Divide sets what each proxy is to be assigned now of a supply. It aims at max-min
// fairness: of a limit that is used up each proxy gets its demand and a twentieth, or an
// equal part of what is left by those that demand less; what nobody demands is divided
// equally, with one more part for a proxy that is still to come.
//
// What proxies hold never becomes more than the supply. So a proxy gets more only when
// others have been told to use less and have reported since, or what they had has
// expired. A changed bucket is a full one, so changes of up to a fifth are not made unless a
// proxy needs a fifth more. One that refuses requests gets what is free, and what others do not
// use; one that has not reported its demand yet what is free, if anything is. If raises is
// false, no proxy gets more than it has, unless it has nothing.
//
// It takes up to a thousand proxies.
func Divide(supply Rate, raises bool, all []Share) {
	aim(supply, all)
	room, frees := supply, Rate(0)
	var needs, wants, guessed Rate
	for i := range all {
		s := &all[i]
		room -= s.Held
		s.Next = s.Told
		switch {
		case s.needs():
			needs += s.Target - s.Told
			if s.Demand == Unknown {
				guessed += s.Target - s.Told
			}
		case s.wants():
			wants += s.Target - s.Told
		case !s.Lost && s.Target < s.Told && s.far() && s.Demand != Unknown:
			s.Next = s.Target
			frees += s.Told - s.Target
		}
	}
	known := needs
	if room > 0 { // something is free for those that have not reported yet
		known -= guessed
	}
	for i := range all {
		s := &all[i]
		if s.Lost || s.Target >= s.Told {
			continue
		}
		if room+frees < known || room+frees < known+wants && s.spares() {
			s.Next = s.Target
		}
	}
	if !raises {
		raise(all, room, needs, (*Share).begins)
		return
	}
	raise(all, room, needs, (*Share).needs)
	raise(all, room-needs, wants, (*Share).wants)
}

// raise gives the proxies that need it, a sum of so much, a part of what is free.
func raise(all []Share, room, sum Rate, needs func(*Share) bool) {
	if room <= 0 || sum <= 0 {
		return
	}
	for i := range all {
		s := &all[i]
		if !needs(s) {
			continue
		}
		more := s.Target - s.Told
		if room < sum {
			more = scale(room, more, sum)
		}
		if !s.Has || more > s.Told/40 {
			s.Next = s.Told + more
		}
	}
}

// needs reports whether a proxy should have much more, or has nothing yet.
func (s *Share) needs() bool {
	return !s.Lost && s.Target > s.Told && (s.far() || !s.Has)
}

// begins reports whether a proxy has nothing yet, and needs something.
func (s *Share) begins() bool { return s.needs() && !s.Has }

// wants reports whether a proxy refuses requests, and should have a little more.
func (s *Share) wants() bool {
	return !s.Lost && !s.needs() && s.Demand > s.Told && s.Target-s.Told > s.Told/40
}

// spares reports whether a proxy does not use all that it has.
func (s *Share) spares() bool {
	return s.Demand != Unknown && s.Demand <= s.Told && s.Told-s.Target > s.Told/20
}

// far reports whether the target is more than a fifth away.
func (s *Share) far() bool {
	away := s.Target - s.Told
	return max(away, -away) > s.Told/5
}

// aim sets the targets.
func aim(supply Rate, all []Share) {
	var demands []Rate
	for i := range all {
		if all[i].Lost {
			supply -= all[i].Held
			continue
		}
		demands = append(demands, all[i].Demand)
	}
	supply = max(supply, 0)
	n := Rate(len(demands))
	if n == 0 {
		return
	}
	var sum Rate
	for i, d := range demands {
		if d == Unknown {
			d = supply / (n + 1)
		} else {
			d = margin(d)
		}
		demands[i] = min(d, supply)
		sum += demands[i]
	}
	spare, level := Rate(0), supply
	if sum < supply {
		spare = (supply - sum) / (n + 1)
	} else {
		level = fill(supply, demands)
	}
	for i := range all {
		s := &all[i]
		switch s.Target = 0; {
		case s.Lost:
		case s.Demand == Unknown:
			s.Target = min(supply/(n+1), level) + spare
		default:
			s.Target = min(margin(s.Demand), level) + spare
		}
	}
}

// margin is a demand and a twentieth, as it varies from one report to the next.
func margin(demand Rate) Rate { return demand + demand/20 }

// fill is the level up to which demands, which it sorts, use up the supply.
func fill(supply Rate, demands []Rate) Rate {
	slices.Sort(demands)
	for i, d := range demands {
		part := supply / Rate(len(demands)-i)
		if d >= part {
			return part
		}
		supply -= d
	}
	return supply
}
