package rig

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestJVM: each of the two starts, survives a kill, is frozen and thawed, all on
// one address.
func TestJVM(t *testing.T) {
	if os.Getenv("THROTTLE_INTEGRATION") != "1" {
		t.Skip("NO KAFKA, NO CASSANDRA: they are NOT started here: run make integration")
	}
	for _, c := range []struct {
		start   func(testing.TB, ...string) *JVM
		setting string
		answers func(string) error
	}{
		{Kafka, "log.retention.hours=7", kafkaAnswers},
		{Cassandra, "native_transport_max_requests_per_second: 500", cassandraAnswers},
	} {
		began := time.Now()
		s := c.start(t, c.setting)
		t.Logf("ready after %v", time.Since(began))
		s.Kill()
		if err := c.answers(s.Addr); err == nil {
			t.Errorf("%s answers after its end", s.Addr)
		}
		began = time.Now()
		s.Restart(t)
		t.Logf("again after %v", time.Since(began))
		s.Freeze()
		s.Thaw()
		if err := c.answers(s.Addr); err != nil {
			t.Errorf("%s was killed, started, frozen and thawed, and does not answer: %v", s.Addr, err)
		}
		s.Kill()
	}
}

func TestJVMMissing(t *testing.T) {
	t.Setenv("KAFKA_JARS", t.TempDir())
	_, err := javaServer{name: "kafka", jar: "kafka_2.13-*.jar"}.find()
	if !errors.Is(err, errMissing) || !strings.Contains(err.Error(), "scripts/need-integration.sh puts it into .bin/kafka") {
		t.Errorf("without jars: %v, want it not installed, and how to install it", err)
	}
}
