package throttletest

import "time"

// SetPatience is for stores that never answer.
func SetPatience(d time.Duration) { patience = d }
