package limit

// Bytes returns about how much memory the Log takes.
func (l *Log) Bytes() int64 {
	const fields, entry = 48, 16
	return fields + entry*int64(cap(l.ring))
}

// Bytes returns about how much memory the Slots take.
func (s *Slots) Bytes() int64 {
	const fields, counter = 40, 8
	return fields + counter*int64(cap(s.ring))
}
