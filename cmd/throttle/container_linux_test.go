package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
)

// image is what the recipe of the container makes, without a container: its tree, and what
// runs in it.
type image struct {
	root    string
	user    string
	command []string
}

// bake follows the recipe: its RUN in the module, and the COPY lines into an empty tree.
func bake(t *testing.T) image {
	text, err := os.ReadFile("../../deploy/container/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := image{root: filepath.Join(dir, "root")}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	first, last, _ := strings.Cut(string(text), "FROM scratch\n")
	run := regexp.MustCompile(`(?m)^RUN (.*)$`).FindStringSubmatch(first)
	if run == nil {
		t.Fatal("the recipe runs nothing")
	}
	do := func(in, command string) {
		c := exec.CommandContext(t.Context(), "sh", "-euc", command)
		c.Dir = in
		if said, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, said)
		}
	}
	do(".", strings.ReplaceAll("mkdir /out && "+run[1], "/out", dir+"/out"))
	place := strings.NewReplacer("/src/", source+"/", "/out/", dir+"/out/")
	for _, line := range strings.Split(last, "\n") {
		word := strings.Fields(line)
		switch {
		case len(word) == 0:
		case word[0] == "COPY":
			to := out.root + word[len(word)-1]
			owner := "0:0"
			if of, ok := strings.CutPrefix(word[2], "--chown="); ok {
				owner = of
			}
			do(".", fmt.Sprintf("mkdir -p %[2]s && rmdir %[2]s && cp -r %[1]s %[2]s && chown %[3]s %[2]s", place.Replace(word[len(word)-2]), to, owner))
		case word[0] == "USER":
			out.user = word[1]
		case word[0] == "ENTRYPOINT", word[0] == "CMD":
			var args []string
			if err := json.Unmarshal([]byte(strings.TrimSpace(strings.TrimPrefix(line, word[0]))), &args); err != nil {
				t.Fatal(err)
			}
			out.command = append(out.command, args...)
		}
	}
	return out
}

// start runs the image on a read-only root, with nothing of this machine's but the
// network, and state as its volume.
func (i image) start(t *testing.T, state string) (*exec.Cmd, *bytes.Buffer) {
	script := `mount --bind "$1" "$1"; mount --bind "$2" "$1/var/lib/throttle"; mount -o remount,ro,bind "$1"
root=$1 user=$3; shift 3; exec chroot --userspec="$user" --groups= "$root" "$@"`
	c := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-euc", script, "sh", i.root, state, i.user}, i.command...)...)
	said := new(bytes.Buffer)
	c.Env, c.Stdout, c.Stderr = []string{}, said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c, said
}

// TestContainerRuns: what the recipe builds serves on an empty, read-only root as nobody,
// knows time zones, ends at SIGTERM and keeps what it has counted.
func TestContainerRuns(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") == "" {
		t.Skip("builds the program twice; make integration runs it")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT ROOT: what the recipe of the container makes is NOT run")
	}
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer to.Close()
	addr, image, state := clitest.Vacant(t), bake(t), t.TempDir()
	if err := os.Chown(state, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"gateway.yaml": fmt.Sprintf("version: 1\ngateway: {listen: %q, routes: {to: %q}}\nrules: {file: rules.yaml}\nstore: {url: 'memory:', snapshot: /var/lib/throttle/counts}\ndrain: {delay: 0s, timeout: 1s}\n", addr, to.URL),
		"rules.yaml":   "rules: {name: month, limits: 3/month calendar-window Europe/Berlin}\n",
	} {
		path = filepath.Join(image.root, "etc/throttle", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for range 2 {
		c, said := image.start(t, state)
		for range 2 {
			got = append(got, reached(t, addr, said))
		}
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid)); err != nil || !strings.Contains(string(status), "\nUid:\t65532\t65532\t") {
			t.Errorf("it runs as\n%s", status)
		}
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("at SIGTERM: %v: %s", err, said)
		}
	}
	if want := []int{200, 200, 200, 429}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("statuses %d, want %d", got, want)
	}
}

// reached asks until somebody answers.
func reached(t *testing.T, addr string, said *bytes.Buffer) int {
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/", nil)
		r.Close = true
		if a, err := http.DefaultTransport.RoundTrip(r); err == nil {
			a.Body.Close()
			return a.StatusCode
		} else if time.Now().After(late) {
			t.Fatalf("%v: %s", err, said)
		}
	}
}
