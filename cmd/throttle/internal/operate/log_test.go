package operate

import (
	"bytes"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttle-go/throttle/internal/bubble"
)

// hung is a log that takes nothing until it is read again.
type hung struct {
	bytes.Buffer
	read chan struct{} // closed when it is
}

func (h *hung) Write(p []byte) (int, error) {
	<-h.read
	return h.Buffer.Write(p)
}

func text(w io.Writer) slog.Handler {
	return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
}

// TestLogHangs: a log whose reader hangs holds up who logs for an instant, once, keeps a
// bounded number of lines, and says later how many it has left out.
func TestLogHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &hung{read: make(chan struct{})}
		log, flush := Log(h, text)
		began := time.Now()
		const lines, size = 3000, 1000
		for range lines {
			log.Info(strings.Repeat("x", size))
		}
		if took := time.Since(began); took != logPatience {
			t.Errorf("%d lines took %v, want %v", lines, took, logPatience)
		}
		flush()
		if took := time.Since(began); took != logPatience+lastWords {
			t.Errorf("the end of the log came after %v, want %v", took, logPatience+lastWords)
		}
		close(h.read)
		synctest.Wait()
		log.Info("after it")
		whole, rest, _ := strings.Cut(h.String(), `level=WARN msg="nobody read the log: lines are left out" lines=`)
		kept := strings.Count(whole, "\n")
		if kept*size > maxUnwritten || (kept+30)*size < maxUnwritten { // some 20 bytes of each are not the message
			t.Errorf("%d lines of %d bytes are kept, want about %d bytes", kept, size, maxUnwritten)
		}
		var left int
		if _, after, _ := strings.Cut(rest, "\n"); after != "level=INFO msg=\"after it\"\n" {
			t.Errorf("after it: %q", after)
		}
		if left = lines - kept; !strings.HasPrefix(rest, strconv.Itoa(left)+"\n") {
			t.Errorf("%d lines are left out, and the log says %.20q", left, rest)
		}
	})
}

// TestLogRead: while the log is read, a line is there when its call returns, in order.
func TestLogRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var b strings.Builder
		log, flush := Log(&b, text)
		began := time.Now()
		for i := range 100 {
			log.Info("line", "n", i)
			if want := "n=" + strconv.Itoa(i) + "\n"; strings.Count(b.String(), "\n") != i+1 || !strings.HasSuffix(b.String(), want) {
				t.Fatalf("after line %d: %q", i, &b)
			}
		}
		flush()
		if took := time.Since(began); took != 0 {
			t.Errorf("they took %v", took)
		}
	})
}
