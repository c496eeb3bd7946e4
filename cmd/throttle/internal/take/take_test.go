package take

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttle-go/throttle/cmd/throttle/internal/clitest"
	"github.com/throttle-go/throttle/cmd/throttle/internal/exit"
	"github.com/throttle-go/throttle/cmd/throttle/internal/stores"
)

// play runs the command, whose name is the first argument.
func play(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	return clitest.Play(ctx, Run, args[1:]...)
}

// inFile runs take with a file of the test's own.
func inFile(t *testing.T) func(args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state")
	return func(args ...string) (string, string, int) {
		return play(t.Context(), append([]string{"take", "-store", "memory:" + path}, args...)...)
	}
}

// TestLoopEnds: the loop of the help waits while it may not, and ends where it may, and
// where there is no decision.
func TestLoopEnds(t *testing.T) {
	_, loop, _ := strings.Cut(help, "\n  until ")
	loop, _, _ = strings.Cut(loop, "\n")
	if page, err := os.ReadFile("../../../../docs/take.md"); err != nil || !strings.Contains(string(page), "until "+loop+"; call") {
		t.Errorf("docs/take.md has not the loop %q: %v", loop, err)
	}
	for _, code := range []string{"0", "1", "2"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		out, err := exec.CommandContext(ctx, "sh", "-c", "n=0; sleep() { n=1; }; throttle() { [ $n = 1 ] && return "+code+"; return 4; }; until "+loop+"; echo $n").CombinedOutput()
		cancel()
		if err != nil || string(out) != "1\n" {
			t.Errorf("exit code %s after 4: %q, %v; want the loop to end after one sleep", code, out, err)
		}
	}
}

func TestTake(t *testing.T) {
	take := inFile(t)
	for _, test := range []struct {
		args string
		code int
		want string // a pattern of all that is printed
	}{
		{"3/week k", 0, `allowed: 1 of k; 2 of 3 remain, all of them in 56h0m0s, on 2\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC`},
		{"3/week k 0", 0, `allowed: nothing of k, only looked; 2 of 3 remain, all of them in 5\dh.*`},
		{"3/week k 2", 0, `allowed: 2 of k; 0 of 3 remain, all of them in 16\dh.*`},
		{"3/week k", 4, `denied: 1 of k: come again in 55h59m.*s, on 2.* UTC; 0 of 3 remain, all of them in 167h59m.*`},
		{"3/week other", 0, `allowed: 1 of other; 2 of 3 remain.*`},
		{"3/week k 4", 4, `denied: 4 of k: never, as 3/week allows 3 at most; 0 of 3 remain.*`},
		{"3/week k -9", 0, `allowed: 3 of k given back; 3 of 3 remain`},
		{"3/week k -9", 0, `allowed: 0 of k given back; 3 of 3 remain`},
		{"3/week k 3", 0, `allowed: 3 of k; 0 of 3 remain.*`},
		{"3/week k -2", 0, `allowed: 2 of k given back; 2 of 3 remain.*`},
		{"-- 3/week k -1", 0, `allowed: 1 of k given back; 3 of 3 remain`},
		{"3/week k -- 1", 0, `allowed: 1 of k; 2 of 3 remain.*`},
		{"-- 3/week -k 1", 0, `allowed: 1 of -k; 2 of 3 remain.*`},
		{"3/week k -min 1 5", 0, `allowed: 2 of k, instead of 5; 0 of 3 remain.*`},
		{"3/week -debt k 2", 0, `allowed: 2 of k; 0 of 3 remain.*`},
		{"3/week k 0", 4, `denied: k is in debt: come again in 111h59m.*`},
		{"unlimited k 7", 0, `allowed: 7 of k`},
		{"9223372036854775807/h k4", 0, `allowed: 1 of k4; 9223372036854775806 of 9223372036854775807 remain, all of them in 1µs`},
		{"3/month~calendar-window~Europe/Berlin k2", 0, `allowed: 1 of k2; 2 of 3 remain.*`},
		{"2/week~sliding-window k3", 0, `allowed: 1 of k3; 1 of 2 remain.*`},
		{"1/week ~~ 1", 0, `allowed: 1 of "  "; 0 of 1 remain.*`},
	} {
		var args []string
		for _, arg := range strings.Fields(test.args) {
			args = append(args, strings.ReplaceAll(arg, "~", " "))
		}
		stdout, stderr, code := take(args...)
		if code != test.code || stderr != "" || !regexp.MustCompile("^"+test.want+"\n$").MatchString(stdout) {
			t.Errorf("throttle take %q: got code %d, stdout %q, stderr %q; want code %d, %s", args, code, stdout, stderr, test.code, test.want)
		}
	}
}

func TestTakeJSON(t *testing.T) {
	take := inFile(t)
	before := time.Now()
	for i, want := range []string{
		`{"version":1,"allowed":true,"rule":"1/s burst 2","key":"k\u003c","asked":2,"charged":2,"most":2,"remaining":0,"retry_after_s":0,"reset_after_s":2,"at":T}`,
		`{"version":1,"allowed":false,"rule":"1/s burst 2","key":"k\u003c","asked":3,"charged":0,"most":2,"remaining":0,"retry_after_s":null,"reset_after_s":S,"at":T}`,
		`{"version":1,"allowed":true,"rule":"unlimited","key":"k\u003c","asked":4,"charged":4,"most":null,"remaining":null,"retry_after_s":0,"reset_after_s":0,"at":T}`,
	} {
		rule := []string{"1/s burst 2", "1/s burst 2", "unlimited"}[i]
		stdout, _, code := take("-json", rule, "k<", []string{"2", "3", "4"}[i])
		var got struct{ At time.Time }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.At.Before(before) || got.At.After(time.Now()) {
			t.Errorf("take -json: %s, %v", stdout, err)
		}
		stdout = regexp.MustCompile(`"at":"[^"]*"`).ReplaceAllString(stdout, `"at":T`)
		if i == 1 {
			stdout = regexp.MustCompile(`"reset_after_s":[0-9.]+`).ReplaceAllString(stdout, `"reset_after_s":S`)
		}
		if stdout != want+"\n" || code != []int{0, 4, 0}[i] {
			t.Errorf("take -json %d: code %d\ngot  %swant %s", i, code, stdout, want)
		}
	}
}

func TestTakeUsage(t *testing.T) {
	dir := t.TempDir()
	damaged := filepath.Join(dir, "damaged")
	if err := os.WriteFile(damaged, []byte("throttle.Memory 1\nand so on"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		code int
		args []string
		want string
	}{
		{2, nil, "RULE and KEY are missing"},
		{2, []string{"3/h"}, "RULE 3/h: KEY is missing"},
		{2, []string{"5000000/h sliding-log", "k"}, "a sliding-log counts up to 1000000"},
		{2, []string{"-store", "memory:/dev/null", "3/h", "k"}, "memory:/dev/null: is not a file that remembers"},
		{2, []string{"3/h", ""}, "KEY is empty"},
		{2, []string{"100/s", "burst", "200", "k"}, "k is too much; write 'throttle take RULE KEY [N]', with a RULE of several words in quotes"},
		{2, []string{"3", "k"}, `RULE "3": has no '/'`},
		{2, []string{"3/h\n", "k"}, `RULE "3/h\n"`},
		{2, []string{"3/h", "k", "x"}, "N x: must be a whole number"},
		{2, []string{"3/h", "k", "1.5"}, "N 1.5: must be a whole number"},
		{2, []string{"3/h", "k", "9223372036854775808"}, "must be a whole number below 2^63"},
		{2, []string{"3/h", "k", "-x"}, "flag -x is not known; run 'throttle take -h'"},
		{2, []string{"-min", "2", "3/h", "k"}, "-min 2: must be from 1 to N, which is 1"},
		{2, []string{"-min=-1", "3/h", "k"}, "-min -1: must be"},
		{2, []string{"-min", "0", "3/h", "k", "5"}, "-min 0: must be from 1 to N, which is 5"},
		{2, []string{"-debt", "-min", "1", "3/h", "k", "5"}, "-min takes a part of N and -debt all of it; write one of them"},
		{2, []string{"-timeout", "0s", "3/h", "k"}, "-timeout 0s: must be above zero"},
		{2, []string{"-create", "3/h", "k"}, "-create: makes tables in PostgreSQL, and the store is of memory:; leave it out"},
		{2, []string{"-create", "-store", "redis://127.0.0.1:1", "3/h", "k"}, "-create: makes tables in PostgreSQL, and the store is of redis:; leave it out"},
		{2, []string{"-keys", "3", "3/h", "k"}, "-keys: is for -bench"},
		{2, []string{"-bench", "-callers", "0", "3/h", "k"}, "-callers 0: must be from 1 to 1000"},
		{2, []string{"-bench", "-keys", "1000001", "3/h", "k"}, "-keys 1000001: must be"},
		{2, []string{"-bench", "-for", "2h", "3/h", "k"}, "-for 2h0m0s: must be"},
		{2, []string{"-bench", "-store", "memory:x", "3/h", "k"}, "and not for -bench"},
		{2, []string{"-store", "memory:", "3/h", "k"}, "would forget at once; write memory:FILE"},
		{2, []string{"-store", "", "3/h", "k"}, "-store: is empty, as by a variable that is not set; write a value"},
		{2, []string{"-store", "memcached", "3/h", "k"}, "-store memcached: write memory:FILE, redis://"},
		{2, []string{"-store", "memcached://h", "3/h", "k"}, "write memory:FILE, redis://"},
		{2, []string{"-store", "redis://", "3/h", "k"}, "a HOST is missing"},
		{2, []string{"-store", "redis://a b", "3/h", "k"}, "-store redis://: HOST: must be a name or an address, one of IPv6 in [ ]"},
		{2, []string{"-store", "redis://%61:6379", "3/h", "k"}, "HOST: must be a name or an address"},
		{2, []string{"-store", "redis://a,b", "3/h", "k"}, "several hosts; add ?cluster=true"},
		{2, []string{"-store", "redis://a/x", "3/h", "k"}, "what follows HOST/: the number of the database"},
		{2, []string{"-store", "redis://a/1?cluster=1", "3/h", "k"}, "a Cluster has the database 0 only"},
		{2, []string{"-store", "redis://a?cluster=x", "3/h", "k"}, "cluster: must be true or false"},
		{2, []string{"-store", "redis://a?slots=-1", "3/h", "k"}, "slots: must be from 1 to 16384"},
		{2, []string{"-store", "redis://a?slots=16385", "3/h", "k"}, "slots: must be from 1 to 16384"},
		{2, []string{"-store", "redis://a?slot=3", "3/h", "k"}, "a name behind ? is not known; known are cluster, prefix, slots, batch, overlap, strict, sentinel_user and sentinel_password"},
		{2, []string{"-store", "redis+sentinel://a,b", "3/h", "k"}, "the name of the master is missing"},
		{2, []string{"-store", "redis+sentinel://a/m?cluster=1", "3/h", "k"}, "a Cluster has no sentinels"},
		{2, []string{"-store", "redis://u:secret%zz@a", "3/h", "k"}, "USER:PASSWORD has a %"},
		{2, []string{"-store", "postgres://u:secret@a:b/c", "3/h", "k"}, "must be a number from 1 to 65535"},
		{1, []string{"-store", "redis://:secret@127.0.0.1:1", "3/h", "k"}, "redis://127.0.0.1:1: throttleredis: "},
		{1, []string{"-store", "postgres://u:secret@127.0.0.1:1/db", "3/h", "k"}, "postgres://127.0.0.1:1/db: throttlesql: "},
		{1, []string{"-store", "memory:" + filepath.Join(dir, "no", "x"), "3/h", "k"}, "no such file or directory"},
		{1, []string{"-store", "memory:" + damaged, "3/h", "k"}, "cut short or has been changed; remove the file to start over"},
	} {
		stdout, stderr, code := play(t.Context(), append([]string{"take"}, test.args...)...)
		if code != test.code || stdout != "" || !strings.Contains(stderr, test.want) || strings.Contains(stderr, "secret") {
			t.Errorf("throttle take %q:\ngot code %d, stdout %q, stderr %q\nwant code %d, nothing, ...%q...", test.args, code, stdout, stderr, test.code, test.want)
		}
		if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "throttle: ") {
			t.Errorf("throttle take %q: got stderr %q, want one line", test.args, stderr)
		}
	}
}

// A directory is no file that remembers, and gets no lock beside it.
func TestTakeDirectory(t *testing.T) {
	dir := t.TempDir()
	_, stderr, code := play(t.Context(), "take", "-store", "memory:"+dir, "3/h", "k")
	if want := dir + ": is not a file that remembers; write memory:FILE"; code != 2 || !strings.Contains(stderr, want) {
		t.Errorf("got code %d, %q, want 2, ...%q...", code, stderr, want)
	}
	if _, err := os.Stat(dir + ".lock"); err == nil {
		t.Errorf("there is a lock beside %s", dir)
	}
}

// A file that somebody else has locked is waited for, but not for ever.
func TestTakeLocked(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	unlock, err := stores.LockFile(t.Context(), state+".lock")
	if err != nil {
		t.Fatal(err)
	}
	_, stderr, code := play(t.Context(), "take", "-timeout", "20ms", "-store", "memory:"+state, "5/week", "k")
	if code != 1 || !strings.Contains(stderr, "state.lock is locked: context deadline exceeded") {
		t.Errorf("while it is locked: code %d, stderr %q", code, stderr)
	}
	unlock()
	if _, stderr, code := play(t.Context(), "take", "-store", "memory:"+state, "5/week", "k"); code != 0 {
		t.Errorf("after that: code %d, stderr %q", code, stderr)
	}
}

// The lock of a file is the same by a symbolic link, also before the file is there.
func TestTakeLockedByALink(t *testing.T) {
	dir := t.TempDir()
	state, link := filepath.Join(dir, "state"), filepath.Join(dir, "link")
	if err := os.Symlink("state", link); err != nil {
		t.Skip(err)
	}
	for _, there := range []bool{false, true} {
		unlock, err := stores.LockFile(t.Context(), state+".lock")
		if err != nil {
			t.Fatal(err)
		}
		_, stderr, code := play(t.Context(), "take", "-timeout", "20ms", "-store", "memory:"+link, "5/week", "k")
		if code != 1 || !strings.Contains(stderr, "state.lock is locked") {
			t.Errorf("file there %t, by a link while it is locked: code %d, stderr %q; want 1, locked", there, code, stderr)
		}
		unlock()
		if _, stderr, code := play(t.Context(), "take", "-store", "memory:"+link, "5/week", "k"); code != 0 {
			t.Errorf("file there %t, after that: code %d, stderr %q", there, code, stderr)
		}
	}
}

// Without -store it is the one of the environment, then one of the user's own.
func TestTakeDefaultStore(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("THROTTLE_STORE", "")
	ask := func(want int) {
		t.Helper()
		if _, stderr, code := play(t.Context(), "take", "1/week", "k"); code != want {
			t.Errorf("code %d, stderr %q, want code %d", code, stderr, want)
		}
	}
	ask(0)
	ask(4)
	t.Setenv("THROTTLE_STORE", "memory:"+filepath.Join(dir, "another"))
	ask(0)
	ask(4)
}

// A mistake in the URL of the environment is not said to be one of -store.
func TestTakeNamesTheEnvironment(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"nothing", "THROTTLE_STORE nothing: write memory:FILE"},
		{"memory:", "THROTTLE_STORE memory: would forget at once"},
		{"memory:/dev/null", "THROTTLE_STORE memory:/dev/null: is not a file"},
		{"redis://", "THROTTLE_STORE redis://: a HOST is missing"},
		{"postgres://h/d?table=a%22", "THROTTLE_STORE postgres://: table: must be"},
		{"postgres://h/d?sslmode=x", "THROTTLE_STORE postgres://: "},
	} {
		t.Setenv("THROTTLE_STORE", c.url)
		_, stderr, code := play(t.Context(), "take", "1/week", "k")
		if want := "throttle: take: " + c.want; code != 2 || !strings.HasPrefix(stderr, want) {
			t.Errorf("THROTTLE_STORE=%s: code %d, stderr %q, want code 2 and %q", c.url, code, stderr, want)
		}
		_, stderr, code = play(t.Context(), "take", "-store", c.url, "1/week", "k")
		if code != 2 || !strings.HasPrefix(stderr, "throttle: take: -store ") {
			t.Errorf("-store %s: code %d, stderr %q, want code 2 and -store", c.url, code, stderr)
		}
	}
}

// TestTakeUnwritten: an answer that cannot be written is still told by the exit code where it
// is a denial, and says that it was charged where it was.
func TestTakeUnwritten(t *testing.T) {
	store := "memory:" + filepath.Join(t.TempDir(), "state")
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"3/week", "k", "3"}, 1, "throttle: take: charged, but that cannot be written: pipe is broken\n"},
		{[]string{"3/week", "k", "0"}, 1, "throttle: take: pipe is broken\n"},
		{[]string{"3/week", "k"}, 4, "throttle: take: denied, but that cannot be written: pipe is broken\n"},
		{[]string{"-json", "3/week", "k"}, 4, "throttle: take: denied, but that cannot be written: pipe is broken\n"},
	} {
		var said strings.Builder
		err := Run(t.Context(), append([]string{"-store", store}, test.args...), nil, clitest.BrokenPipe{}, &said)
		if code := exit.Code(err, &said); code != test.code || said.String() != test.want {
			t.Errorf("take %q to a broken pipe: exit code %d, %q; want %d, %q", test.args, code, said.String(), test.code, test.want)
		}
	}
}
