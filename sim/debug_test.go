package sim

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestDebug(t *testing.T) {
	if os.Getenv("DEBUG") == "" {
		t.Skip()
	}
	var ms, tail float64
	var width, seed int
	var sec float64
	fmt.Sscan(os.Getenv("DEBUG"), &ms, &width, &tail, &seed, &sec)
	c := trial{service: Service{Time: time.Duration(ms * 1e6), Spread: 0.2, Tail: tail, AtOnce: width, Queue: -1}, latency: 500 * time.Microsecond}
	r := New(c.scenario(), policy(t, "none(in-flight=adaptive)"), uint64(seed))
	last := ""
	for !r.Step(1) {
		s := fmt.Sprintf("%+v", r.lanes[0].gate.Concurrency)
		i := 0
		for ; i < len(s) && s[i] != '{'; i++ {
		}
		var key string
		if a := indexOf(s, "last:"); a > 0 {
			key = s[:a]
		}
		if key != last {
			last = key
			fmt.Println(time.Duration(r.now), s)
		}
		if float64(r.now) > sec*1e9 {
			return
		}
	}
}

func indexOf(s, x string) int {
	for i := 0; i+len(x) <= len(s); i++ {
		if s[i:i+len(x)] == x {
			return i
		}
	}
	return -1
}
