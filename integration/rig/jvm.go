package rig

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A JVM is one server that runs in a Java virtual machine with a small heap: one
// Kafka, or one node of Cassandra. Its script ends by exec, so it is one process
// with one id all the time.
type JVM struct {
	*Process
	// Addr is its host and port.
	Addr string
}

// Kafka starts one Apache Kafka, broker and controller in one process, by
// scripts/kafka/run. Settings are lines of server.properties and win over ours,
// such as "group.min.session.timeout.ms=1000". It is ready in some 3 s, which
// means that it answers with itself as a broker.
func Kafka(t testing.TB, settings ...string) *JVM {
	t.Helper()
	return jvm(t, javaServer{name: "kafka", jar: "kafka_2.13-*.jar", ports: 2, settings: settings, ready: kafkaAnswers})
}

// Cassandra starts one node of Apache Cassandra by scripts/cassandra/run. Settings
// are lines of cassandra.yaml and win over ours, such as
// "native_transport_max_requests_per_second: 500". It is ready in some 5 s, which
// means that it answers a request of the native protocol. Only after some 400,000
// writes is it as fast as it gets.
func Cassandra(t testing.TB, settings ...string) *JVM {
	t.Helper()
	return jvm(t, javaServer{name: "cassandra", jar: "cassandra-all-*.jar", ports: 3, settings: settings, ready: cassandraAnswers})
}

// javaServer is how one server is started: by scripts/NAME/run, with the jars in
// .bin/NAME.
type javaServer struct {
	name, jar string
	ports     int // the first is that of clients
	settings  []string
	ready     func(addr string) error
}

func jvm(t testing.TB, j javaServer) *JVM {
	t.Helper()
	s, err := again(j.start)
	check(t, err)
	t.Cleanup(s.remove)
	return s
}

func (j javaServer) start() (*JVM, error) {
	run, err := j.find()
	if err != nil {
		return nil, err
	}
	dir, err := folder(j.name)
	if err != nil {
		return nil, err
	}
	args := []string{dir}
	var addr string
	for i := range j.ports {
		at, err := port()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			addr = local(at)
		}
		args = append(args, fmt.Sprint(at))
	}
	s := &JVM{Addr: addr, Process: &Process{Dir: dir, path: run, args: append(args, j.settings...)}}
	s.ready = func() error { return j.ready(addr) }
	if err := s.start(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// find is the path of the script that runs the server. The error is errMissing
// where Java or the jars are not there.
func (j javaServer) find() (run string, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("java, for %s, is %w: scripts/need-integration.sh installs it", j.name, errMissing)
	}
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		run = filepath.Join(dir, "scripts", j.name, "run")
		if _, err := os.Stat(run); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("scripts/%s/run is not above the folder of the test: %w", j.name, os.ErrNotExist)
		}
	}
	variable := strings.ToUpper(j.name) + "_JARS"
	jars := cmp.Or(os.Getenv(variable), filepath.Join(dir, ".bin", j.name))
	if found, _ := filepath.Glob(filepath.Join(jars, j.jar)); len(found) == 0 {
		return "", fmt.Errorf("%s is %w: scripts/need-integration.sh puts it into .bin/%s with Maven; or set %s to the folder of its jars",
			j.name, errMissing, j.name, variable)
	}
	return run, err
}

// askOnce sends a request and reads the first bytes of its answer.
func askOnce(addr string, request, answer []byte) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return err
	}
	_, err = io.ReadFull(c, answer)
	return err
}

// kafkaAnswers asks for the brokers, by Metadata of version 1 for no topic. The
// port is open before the broker has joined its own cluster.
func kafkaAnswers(addr string) error {
	answer := make([]byte, 12) // length, the number of the request, how many brokers
	if err := askOnce(addr, []byte("\x00\x00\x00\x10"+"\x00\x03\x00\x01\x00\x00\x00\x01"+"\x00\x02up"+"\x00\x00\x00\x00"), answer); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(answer[8:]) == 0 {
		return errors.New("it knows no broker yet")
	}
	return nil
}

// cassandraAnswers sends OPTIONS of version 4 and wants SUPPORTED.
func cassandraAnswers(addr string) error {
	answer := make([]byte, 9)
	if err := askOnce(addr, []byte("\x04\x00\x00\x01\x05\x00\x00\x00\x00"), answer); err != nil {
		return err
	}
	if opcode := answer[4]; opcode != 6 {
		return fmt.Errorf("it answers OPTIONS with opcode %d, want 6, which is SUPPORTED", opcode)
	}
	return nil
}
