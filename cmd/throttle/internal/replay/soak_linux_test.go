package replay

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const tenRules = `rules:
  - {name: all, limits: 2000/s}
  - {name: per-address, key: address, limits: [20/s burst 40, 600/min]}
  - {name: login, match: {paths: /login, methods: POST}, key: address, limits: 5/min}
  - {name: search, match: {paths: "/search/**"}, key: address, limits: 30/min}
  - {name: api, match: {paths: "/api/**"}, key: address+path:2, limits: 100/min sliding-window}
  - {name: things, match: {paths: "/things/**"}, key: address, limits: 1000/h fixed-window}
  - {name: agents, key: "header:User-Agent", limits: 5000/s}
  - {name: first, key: path:1, limits: 3000/s}
  - {name: network, key: address, limits: 100/10s, shadow: true}
  - {name: method, key: method, limits: 10000/s}
`

// Ten million lines under ten rules take at most 200 MB and, of two processors, a minute.
// It is ten million with THROTTLE_SOAK=1, and 1.2 GB on the disk; otherwise 20,000.
func TestSoakReplay(t *testing.T) {
	n := 20_000
	if os.Getenv("THROTTLE_SOAK") != "" {
		n = 10_000_000
	}
	if log := os.Getenv("THROTTLE_REPLAY_LOG"); log != "" { // the process that is measured
		if err := Run(t.Context(), []string{"-rules", filepath.Join(filepath.Dir(log), "rules.yaml"), log}, nil, os.Stdout, os.Stderr); err != nil {
			t.Fatal(err)
		}
		return
	}
	folder := t.TempDir()
	log := filepath.Join(folder, "access.log")
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(tenRules), 0o644); err != nil {
		t.Fatal(err)
	}
	writeMany(t, log, n)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSoakReplay$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "THROTTLE_REPLAY_LOG="+log)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%d lines: %v, %v of processors, %d MB", n, time.Since(began).Round(time.Millisecond), busy, used.Maxrss>>10)
	if used.Maxrss > 200<<10 {
		t.Errorf("%d MB, want 200 at most", used.Maxrss>>10)
	}
	if busy > 2*time.Minute {
		t.Errorf("%v of processors, want 2m at most", busy)
	}
}

// writeMany writes a log of so many lines, of a few callers that ask often and many that
// ask seldom.
func writeMany(t *testing.T, name string, n int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 20, 1_000_000)
	for i := range n {
		a := zipf.Uint64() * 2654435761 % (1 << 24)
		path := paths[random.IntN(len(paths))]
		method := "GET"
		if path == "/login" {
			method = "POST"
		}
		fmt.Fprintf(w, "10.%d.%d.%d - - [%s] \"%s %s HTTP/1.1\" 200 %d \"https://example.com/\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n",
			a>>16, a>>8&255, a&255, start.Add(time.Duration(i)*8*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), method, path, 100+i%1000)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
