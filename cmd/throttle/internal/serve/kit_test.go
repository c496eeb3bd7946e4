//go:build unix

package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
)

// running is a program that serves.
type running struct {
	t       *testing.T
	dir     string
	gateway string // its URL
	egress  string // its URL
	admin   string // its URL
	stop    func() int

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with each line
}

// folder writes files into a folder; TO stands for a service that answers.
func folder(t *testing.T, service http.Handler, files ...string) string {
	t.Helper()
	to := httptest.NewServer(service)
	t.Cleanup(to.Close)
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		write(t, filepath.Join(dir, files[i]), strings.ReplaceAll(files[i+1], "TO", to.URL))
	}
	return dir
}

// write replaces a file as editors do.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// start runs the program with files of a folder, until the test ends.
func start(t *testing.T, dir string, names ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, dir: dir, more: make(chan struct{})}
	reader, writer := io.Pipe()
	code, read := make(chan int, 1), make(chan struct{})
	var args []string
	for _, n := range names {
		args = append(args, filepath.Join(dir, n))
	}
	go func() {
		err := Run(ctx, args, strings.NewReader(""), io.Discard, writer)
		code <- exit.Code(err, writer)
		writer.Close()
	}()
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			r.add(lines.Text())
		}
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		<-read
		return <-code
	})
	t.Cleanup(func() { r.stop() })
	var at struct {
		Gateway []string
		Egress  string
		Admin   string
	}
	if err := json.Unmarshal([]byte(r.said("serving")), &at); err != nil {
		t.Fatal(err)
	}
	if len(at.Gateway) > 0 {
		r.gateway = "http://" + at.Gateway[0]
	}
	r.egress = "http://" + at.Egress
	r.admin = "http://" + at.Admin
	return r
}

func (r *running) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	close(r.more)
	r.more = make(chan struct{})
}

// said waits for a line with all of some texts in it.
func (r *running) said(texts ...string) string {
	r.t.Helper()
	line, ok := r.heard(20*time.Second, texts)
	if !ok {
		r.t.Fatalf("nothing was said with %q in\n%s", texts, strings.Join(r.lines, "\n"))
	}
	return line
}

// hangup sends SIGHUP until something is said.
func (r *running) hangup(texts ...string) {
	r.t.Helper()
	for range 20 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			r.t.Fatal(err)
		}
		if _, ok := r.heard(time.Second, texts); ok {
			return
		}
	}
	r.said(texts...)
}

// TestMain keeps SIGHUP from ending the tests where no program serves.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// heard waits for a line with all of some texts in it, no longer than d.
func (r *running) heard(d time.Duration, texts []string) (string, bool) {
	late := time.After(d)
	for from := 0; ; {
		r.mu.Lock()
		lines, more := r.lines, r.more
		r.mu.Unlock()
		for ; from < len(lines); from++ {
			if has(lines[from], texts) {
				return lines[from], true
			}
		}
		select {
		case <-more:
		case <-late:
			return "", false
		}
	}
}

func has(line string, texts []string) bool {
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return false
		}
	}
	return true
}

// count is how many lines have a text.
func (r *running) count(text string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// write replaces a file of the folder.
func (r *running) write(name, text string) {
	r.t.Helper()
	write(r.t, filepath.Join(r.dir, name), text)
}

// get sends a request with fields, and returns the status and the body.
func get(t *testing.T, url string, fields ...string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		q.Header.Add(fields[i], fields[i+1])
	}
	a, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(a.Body); err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, body.String()
}

// statuses are those of the same request several times.
func (r *running) statuses(n int, path string, fields ...string) string {
	r.t.Helper()
	var all []string
	for range n {
		status, _ := get(r.t, r.gateway+path, fields...)
		all = append(all, fmt.Sprint(status))
	}
	return strings.Join(all, " ")
}

// until sends a request until it has a status.
func (r *running) until(status int, path string, fields ...string) {
	r.t.Helper()
	late := time.Now().Add(20 * time.Second)
	for {
		got, _ := get(r.t, r.gateway+path, fields...)
		if got == status {
			return
		}
		if time.Now().After(late) {
			r.t.Fatalf("GET %s: %d, want %d in the end", path, got, status)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.URL.Path) })
