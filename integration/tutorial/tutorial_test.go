package tutorial

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/throttle-go/throttle/integration/rig"
)

const page = "../../docs/tutorial.md"

// TestTutorial saves each file and types each command of the page, in order, and
// compares what is printed. Only its ports are others, and `go get` takes the
// library from this checkout and the rest from the cache of modules. A page that is
// right prints it at one of three times: on a busy machine a client may come too late
// for its turn, and be refused more often than the page says.
func TestTutorial(t *testing.T) {
	need(t, "bash", "curl", "redis-server", "redis-cli")
	text, err := os.ReadFile(page)
	check(t, err)
	for try := 1; ; try++ {
		if err = types(t, string(text)); err == nil {
			return
		}
		if t.Log(err); try == 3 {
			t.Fatal("what is printed differs in each of three runs")
		}
	}
}

// types goes through the page. The error is about what is printed.
func types(t *testing.T, text string) error {
	steps, err := read(otherPorts(t, text))
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	dir := t.TempDir()
	s := begin(t, dir, environment())
	s.do(t, standIn(t))
	for _, step := range steps {
		if step.file != "" {
			save(t, filepath.Join(dir, "tutorial"), step)
		}
		for _, c := range step.typed {
			if got := s.do(t, c.command); !c.same(got) {
				return fmt.Errorf("%s:%d: %s\nprints\n%s\nand not\n%s", page, c.line, c.command, got, c.prints)
			}
			await(t, c.command)
		}
	}
	return nil
}

// need ends the test, or skips it, where a program is not installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("THROTTLE_REQUIRE") == "1" {
			t.Fatal(p, "is not installed: scripts/need.sh installs it")
		}
		t.Skip("NO TUTORIAL, this is NOT tested:", p, "is not installed: scripts/need.sh installs it")
	}
}

// environment is that of a reader, without a workspace. There is no race detector: it
// would be most of the time, and what these programs run is tested with it elsewhere.
func environment() []string {
	return append(os.Environ(), "GOFLAGS=-mod=mod -ldflags=-w", "GOWORK=off", "GOPROXY=off", "LC_ALL=C")
}

// standIn makes the shell's `go get` take the library from this checkout, which
// nobody has published, and the client of Redis that these tests are built with.
func standIn(t *testing.T) string {
	const module, client = "github.com/throttle-go/throttle", "github.com/redis/go-redis/v9"
	root, err := filepath.Abs("../..")
	check(t, err)
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", client).Output()
	check(t, err)
	return fmt.Sprintf(`go() {
	[ "$*" = 'get %[1]s %[3]s' ] || { command go "$@"; return; }
	command go mod edit -replace='%[1]s=%[2]s' -require=%[1]s@v0.0.0 -require=%[3]s@%[4]s
	cat '%[2]s/integration/go.sum' '%[2]s/go.work.sum' > go.sum
}`, module, root, client, strings.TrimSpace(string(version)))
}

var port = regexp.MustCompile(`\b(8080|8081|8082|6390)\b`)

// otherPorts is the page with free ports in place of those that a reader has free.
func otherPorts(t *testing.T, text string) string {
	free := map[string]string{}
	return port.ReplaceAllStringFunc(text, func(p string) string {
		if free[p] == "" {
			free[p] = fmt.Sprint(rig.FreePort(t))
		}
		return free[p]
	})
}

func save(t *testing.T, dir string, s step) {
	t.Helper()
	name := filepath.Join(dir, s.file)
	if _, err := os.Stat(name); s.replaces != (err == nil) {
		t.Fatalf("%s:%d: %s is there already: %t; it is to be replaced: %t", page, s.line, s.file, err == nil, s.replaces)
	}
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(s.code), 0o644))
}

// served are the addresses in a command that starts a server in the background.
var served = regexp.MustCompile(`(?:localhost:|--port )(\d+).* & \w+=\$!$`)

// await waits for a server that a command has started, as a reader does who types
// slowly.
func await(t *testing.T, command string) {
	t.Helper()
	m := served.FindStringSubmatch(command)
	if m == nil {
		return
	}
	rig.Until(t, "there is an answer to: "+command, func() error {
		c, err := net.Dial("tcp", net.JoinHostPort("localhost", m[1]))
		if err == nil {
			c.Close()
		}
		return err
	})
}

func TestTutorialBites(t *testing.T) {
	const good = "Save this as `a/b.go`:\n\n```go\npackage a\n```\n\n<!-- varies: \\d+ s -->\n```console\n$ ls\nx 1 s\n```\n"
	steps, err := read(good)
	if err != nil || len(steps) != 2 || steps[0].file != "a/b.go" || steps[0].code != "package a\n" || len(steps[1].typed) != 1 {
		t.Fatalf("read(%q) = %+v, %v", good, steps, err)
	}
	for printed, want := range map[string]bool{"x 22 s": true, "x 1 s \r\n": true, "x s": false, "y 1 s": false, "": false, "x 1 s\nz": false} {
		if got := steps[1].typed[0].same(printed); got != want {
			t.Errorf("%q for x 1 s: same = %t, want %t", printed, got, want)
		}
	}
	for _, bad := range []string{
		"```go\npackage a\n```\n", "Save this as `a.go`:\n\nAnd this:\n\n```go\n```\n", "```sh\nls\n```\n", "```console\nls\n```\n",
		"<!-- varies: a -->\n\n```console\n$ ls\n```\n", "<!-- varies: ( -->\n", "```console\n$ ls\n",
	} {
		if _, err := read(bad); err == nil {
			t.Errorf("read(%q) succeeds, want an error", bad)
		}
	}
}
