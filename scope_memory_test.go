package throttle_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/throttle-go/throttle"
)

// Each scope that is remembered takes 3 kB, with all that its pace has learnt.
func TestMemoryOfAScope(t *testing.T) {
	const scopes, most = 10000, 3300
	th := throttle.Throttle{MaxScopes: scopes}
	before := held()
	for i := range scopes {
		ctx := throttle.WithOptions(t.Context(), throttle.CallOptions{Needs: []throttle.Need{{Scope: fmt.Sprint("scope", i)}}})
		if err := th.Do(ctx, func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	each := (held() - before) / scopes
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("each of %d scopes takes %d bytes, want at most %d", scopes, each, most)
	}
	runtime.KeepAlive(&th)
}

// held is how many bytes are in use.
func held() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
