package admin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/throttle-go/throttle/rules"
)

// fickle is an overlay whose store goes away.
type fickle struct {
	rules.Shared
	away atomic.Bool
}

func (f *fickle) Swap(ctx context.Context, old string, data []byte) (string, bool, error) {
	if f.away.Load() {
		return "", false, errors.New("dial tcp 192.0.2.1:6379: connection refused")
	}
	return f.Shared.Swap(ctx, old, data)
}

// TestPageStoreAway: a raise whose store goes away says so with what was typed, raises
// nothing, is among the events, and can be sent again when the store is back.
func TestPageStoreAway(t *testing.T) {
	one := instances(t, 1)[0]
	f := &fickle{Shared: one.stack.Shared}
	one.stack.Shared = f
	v := one.visit(writeSecret)
	raise := []string{"rule", "per-client", "key", "acme", "times", "3", "for", "4h", "other", "90m", "why", "a launch"}
	f.away.Store(true)
	a := v.submit("/do/raise", raise...)
	for _, want := range []string{`role="alert"`, "connection refused", `value="3"`, `value="a launch"`, `value="90m"`, `<option value="4h" selected>`} {
		if a.status != 503 || !strings.Contains(a.body, want) {
			t.Errorf("without the store: %d, the page has no %s", a.status, want)
		}
	}
	if o, _ := one.stack.Overlay(); len(o.Overrides) > 0 {
		t.Errorf("it raised %v", o.Overrides)
	}
	if a := v.open("/events"); !strings.Contains(a.body, "503") || !strings.Contains(a.body, "a launch") {
		t.Error("the raise that failed is not among the events")
	}
	f.away.Store(false)
	if a := v.submit("/do/raise", raise...); a.status != 303 {
		t.Errorf("with the store again: %d", a.status)
	}
}

// readOnly is an overlay whose store takes no writes, and says so.
type readOnly struct{ rules.Shared }

func (readOnly) Swap(context.Context, string, []byte) (string, bool, error) {
	return "", false, notWritten{errors.New("READONLY")}
}

type notWritten struct{ error }

func (notWritten) Unchanged() bool { return true }

// fullDisk is a Shared on a disk without room.
type fullDisk struct{ rules.Shared }

func (fullDisk) Swap(context.Context, string, []byte) (string, bool, error) {
	return "", false, &fs.PathError{Op: "write", Path: "/etc/throttle/.overlay.json.1", Err: errors.New("no space left on device")}
}

// TestOverlayUnchanged: of a store that certainly wrote nothing the answer says so; of
// one that may have, that it is not known.
func TestOverlayUnchanged(t *testing.T) {
	one := instances(t, 1)[0]
	shared, f := one.stack.Shared, &fickle{}
	f.away.Store(true)
	for _, c := range []struct {
		shared rules.Shared
		want   string
	}{
		{readOnly{shared}, "READONLY; nothing was changed: send it again once the store takes writes"},
		{fullDisk{shared}, "no space left on device; nothing was changed: let this process write to the folder of rules.overlay"},
		{f, "connection refused; whether it was changed is not known"},
	} {
		f.Shared, one.stack.Shared = shared, c.shared
		a := one.write("PUT", "/api/v1/kill", because("for", "1h"))
		if a.status != 503 || !strings.Contains(a.body, c.want) {
			t.Errorf("got %d %s, want 503 %s", a.status, a.body, c.want)
		}
	}
}

// TestOverlayFolderGone: a change that no file can be made for says so, and that nothing
// was changed.
func TestOverlayFolderGone(t *testing.T) {
	one := instances(t, 1)[0]
	one.stack.Shared = &rules.File{Path: filepath.Join(t.TempDir(), "gone", "overlay.json")}
	a := one.write("PUT", "/api/v1/kill", because("for", "1h"))
	if want := "no such file or directory; nothing was changed: let this process write to the folder of rules.overlay"; a.status != 503 || !strings.Contains(a.body, want) {
		t.Errorf("got %d %s, want 503 %s", a.status, a.body, want)
	}
}

// TestOverlayDamaged: an overlay that cannot be read is no fault of who sends a change.
func TestOverlayDamaged(t *testing.T) {
	one := instances(t, 1)[0]
	for _, text := range []string{`{"serial": `, `{"serial": 9, "deny": "somebody"}`} {
		if err := os.WriteFile(one.stack.Shared.(*rules.File).Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := one.write("PUT", "/api/v1/kill", because("for", "1h"))
		want, do := "what is there cannot be used: ", "; delete it, and an instance that has a good one writes that again"
		if a.status != 503 || !strings.Contains(a.body, want) || !strings.Contains(a.body, do) {
			t.Errorf("%s: got %d %s, want 503 %s%s", text, a.status, a.body, want, do)
		}
	}
}

// TestPageTwoOperators: changes that two operators make at once by two instances are all
// kept, and to end what the other has ended says so.
func TestPageTwoOperators(t *testing.T) {
	all := instances(t, 2)
	var both [2]*visitor
	for i := range both {
		both[i] = all[i].visit(writeSecret)
	}
	var group sync.WaitGroup
	for i, v := range both {
		group.Go(func() {
			for _, n := range []string{"a", "b", "c", "d", "e"} {
				if a := v.submit("/do/block", "entry", "client="+n+string(rune('0'+i)), "for", "1h", "why", "x"); a.status != 303 {
					t.Errorf("block by operator %d: %d", i, a.status)
				}
			}
		})
	}
	group.Wait()
	for i, one := range all {
		one.look()
		if o, _ := one.stack.Overlay(); len(o.Deny) != 10 {
			t.Errorf("instance %d has %d of 10 blocks", i, len(o.Deny))
		}
	}
	if a := both[0].submit("/do/end-block", "entry", "client=a0", "why", "x"); a.status != 303 {
		t.Errorf("the end of a block: %d", a.status)
	}
	if a := both[1].submit("/do/end-block", "entry", "client=a0", "why", "x"); a.status != 404 || !strings.Contains(a.body, "has no such entry") {
		t.Errorf("the end of a block that has ended: %d", a.status)
	}
}

// TestRaiseUnlimited: no limit is no limit some times over, which the answer says of what
// was sent.
func TestRaiseUnlimited(t *testing.T) {
	x := instances(t, 1)[0]
	x.text = `{"rules": [
		{"name": "held", "key": "client", "in_flight": 3},
		{"name": "free", "key": "client", "limits": "unlimited"},
		{"name": "vip", "key": "client", "limits": "2/h", "overrides": [{"key": "acme", "limits": "unlimited"}]}]}`
	x.must("POST", "/api/v1/reload", because())
	for _, rule := range []string{"held", "free", "vip"} {
		a := x.write("PUT", "/api/v1/raise", because("rule", rule, "key", []string{"acme"}, "times", 2, "for", "1h"))
		if want := "times: the key has no limit now; write"; a.status != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 %s", rule, a.status, a.body, want)
		}
	}
	var is keyState
	if x.get("/api/v1/key?rule=held&key=acme", &is); is.Rule != "held" || len(is.Limits) != 0 {
		t.Errorf("a key of a rule with in_flight alone: %+v, want no limits", is)
	}
}

// TestRaiseRefuses: what is wrong with a raise is told of what was sent, not by its place in
// the rules.
func TestRaiseRefuses(t *testing.T) {
	x := instances(t, 1)[0]
	x.text = `{"rules": [{"name": "all", "limits": "9/h"}, {"name": "vip", "key": "client", "limits": "2/h"}]}`
	x.must("POST", "/api/v1/reload", because())
	for _, c := range []struct {
		body map[string]any
		want string
	}{
		{because("rule", "vip", "key", "acme", "in_flight", -1, "for", "1h"), `"detail":"in_flight: must be above zero"`},
		{because("rule", "vip", "key", "acme", "limits", "3/h", "in_flight", -1, "for", "1h"), `"detail":"in_flight: must be above zero"`},
		{because("rule", "all", "times", 2, "for", "1h"), `"detail":"rule: \"all\" has no key to raise; `},
		{because("rule", "all", "key", []string{}, "limits", "3/h", "for", "1h"), `"detail":"rule: \"all\" has no key to raise; `},
	} {
		if a := x.write("PUT", "/api/v1/raise", c.body); a.status != 400 || !strings.Contains(a.body, c.want) {
			t.Errorf("%v: %d %s, want 400 %s", c.body, a.status, a.body, c.want)
		}
	}
}
