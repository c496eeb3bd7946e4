package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/throttle-go/throttle/integration/rig"
)

// real is a Kafka and a Cassandra of their own, of which the test kills and
// freezes the latter.
func real(t *testing.T, kafka *rig.JVM, settings ...string) *site {
	t.Helper()
	c := rig.Cassandra(t, settings...)
	s := &site{
		brokers: kafka.Addr, cassandra: c.Addr,
		freeze: c.Freeze, thaw: c.Thaw, kill: c.Kill,
		restart: func(t *testing.T) { c.Restart(t) },
	}
	s.rows = s.selected
	return s
}

// selected reads the keys of a whole table.
func (s *site) selected(t *testing.T, topic string, each int64) (found [partitions]map[int64]bool) {
	t.Helper()
	d, err := connect(t.Context(), s.options(t, topic, "-timeout", "10s"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for i := range found {
		found[i] = map[int64]bool{}
	}
	rows := d.session.Query("SELECT device, at FROM " + d.keyspace + "." + d.table).PageSize(5000).IterContext(t.Context())
	var device string
	var at time.Time
	for rows.Scan(&device, &at) {
		var part, rest int
		if _, err := fmt.Sscanf(device, "p%d-%d", &part, &rest); err != nil || part >= partitions {
			continue // of a neighbour
		}
		found[part][at.Sub(epoch).Milliseconds()] = true
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return found
}

// at500 makes a node serve 500 requests a second, and delay what is beyond.
var at500 = []string{"native_transport_rate_limiting_enabled: true", "native_transport_max_requests_per_second: 500"}

// TestReal plays the scenes at a real Kafka and real Cassandras, one after
// another, as two cores are full of them.
func TestReal(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") != "1" {
		t.Skip("NO KAFKA, NO CASSANDRA: the scenes are NOT played at real ones: run make integration")
	}
	kafka := rig.Kafka(t)
	t.Run("Node", func(t *testing.T) {
		s := real(t, kafka)
		s.warm(t, 12*time.Second)
		t.Run("Best", func(t *testing.T) { sceneBest(t, s, []int{16, 64, 256}, 50_000, 3*time.Second, "-slowdown", "6") })
		t.Run("Frozen", func(t *testing.T) { sceneFrozen(t, s, 50_000, 10*time.Second, 2*time.Second) })
		t.Run("Slow", func(t *testing.T) { sceneSlow(t, s, 50_000, 3*time.Second, 3*time.Second) })
		t.Run("Lost", func(t *testing.T) { sceneLost(t, s, 30_000, 3*time.Second) })
		t.Run("Poison", func(t *testing.T) { scenePoison(t, s, 40_000, 10_000) })
		t.Run("Killed", func(t *testing.T) { sceneKilled(t, s, 30_000, 10_000, 2*time.Second, "-most", "1") })
		t.Run("Down", func(t *testing.T) { sceneDown(t, s, 10_000, 4*time.Second) })
	})
	t.Run("Limited", func(t *testing.T) {
		s := real(t, kafka, at500...)
		t.Run("Collapse", func(t *testing.T) { sceneCollapse(t, s, 5000, 6*time.Second, 3*time.Second) })
		t.Run("Several", func(t *testing.T) { sceneSeveral(t, s, 500, 1000, 3*time.Second) })
		t.Run("Refused", func(t *testing.T) { sceneRefused(t, s, 500, 2500, 6*time.Second) })
	})
	t.Run("Queue", func(t *testing.T) {
		s := real(t, kafka, "cql_start_time: QUEUE", "write_request_timeout: 200ms")
		s.warm(t, 5*time.Second)
		t.Run("Neighbour", func(t *testing.T) { sceneNeighbour(t, s, 60_000, 2*time.Second, 4*time.Second) })
	})
}

// TestRealMetastable plays the collapse that outlasts its trigger five times, each
// at a node of its own: what is learnt comes back in all of them.
func TestRealMetastable(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") != "1" || os.Getenv("THROTTLE_SOAK") == "" {
		t.Skip("NO KAFKA, NO CASSANDRA: set THROTTLE_INTEGRATION=1 and THROTTLE_SOAK=1 to play five metastable failures at real ones")
	}
	kafka := rig.Kafka(t)
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s := real(t, kafka, at500...)
			frozen := func() func() { s.freeze(); return s.thaw }
			sceneMetastable(t, s, fmt.Sprint("trigger-", i), frozen, 5*time.Second, 10*time.Second)
		})
	}
}

// warm writes rows for a while, as a virtual machine that has just started is slow.
func (s *site) warm(t *testing.T, long time.Duration) {
	t.Helper()
	const topic = "warm"
	s.begin(t, topic).stop()
	s.produce(t, topic, 100_000)
	j := s.begin(t, topic, "-once", "-fixed", "-most", "64").run(t)
	select {
	case <-j.ended:
	case <-time.After(long):
	}
	t.Logf("warmed up by %d rows", counted(j.pipeline).done)
	j.stop()
}
