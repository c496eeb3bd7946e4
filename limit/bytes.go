package limit

// Bytes is how much memory the Log takes, about.
func (l *Log) Bytes() int64 {
	const fields, entry = 48, 16
	return fields + entry*int64(cap(l.ring))
}

// Bytes is how much memory the Slots take, about.
func (s *Slots) Bytes() int64 {
	const fields, counter = 40, 8
	return fields + counter*int64(cap(s.ring))
}
