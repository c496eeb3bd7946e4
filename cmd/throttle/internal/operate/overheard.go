package operate

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Overheard bounds what others write to the log of package log, for log.SetOutput:
// net/http writes there what an upstream sends on an idle connection, without any way to
// have it elsewhere, and a hostile one may send as much as it likes. At most one line a
// second is passed on, with how many were not. It is safe for concurrent use.
type Overheard struct {
	To io.Writer

	mu   sync.Mutex // guards what follows
	next time.Time  // when a line may be passed on again
	left int        // how many were not since the last
}

// maxLine bounds a line that was overheard, in bytes.
const maxLine = 300

// Write passes on a line, or counts it. The error is that of To.
func (o *Overheard) Write(line []byte) (int, error) { return o.write(time.Now(), line) }

func (o *Overheard) write(now time.Time, line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.next) {
		o.left++
		return len(line), nil
	}
	text := string(line)
	if len(text) > maxLine {
		text = text[:maxLine] + "...\n"
	}
	if o.left > 0 {
		text = fmt.Sprintf("%d lines before are left out; %s", o.left, text)
	}
	o.next, o.left = now.Add(time.Second), 0
	_, err := io.WriteString(o.To, text)
	return len(line), err
}
