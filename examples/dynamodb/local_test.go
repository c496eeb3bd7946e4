package main

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// findLocal is the folder of DynamoDB Local: $DYNAMODB_LOCAL, or what
// scripts/need-integration.sh installed; empty if there is none, or no Java.
func findLocal() string {
	if _, err := exec.LookPath("java"); err != nil {
		return ""
	}
	places := []string{os.Getenv("DYNAMODB_LOCAL")}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, ".bin", "dynamodb-local"))
		}
	}
	for _, p := range places {
		if jars, _ := filepath.Glob(filepath.Join(p, "DynamoDBLocal-*.jar")); p != "" && len(jars) > 0 {
			return p
		}
	}
	return ""
}

// localAPI is DynamoDB Local, which is Amazon's own, and counts capacity units.
// It needs a JVM: without it the test fails under make integration, which sets
// THROTTLE_INTEGRATION=1, and else is skipped.
func localAPI(t *testing.T) *url.URL {
	t.Helper()
	dir := findLocal()
	switch {
	case dir == "" && os.Getenv("THROTTLE_INTEGRATION") == "1":
		t.Fatal("no DynamoDB Local: run scripts/need-integration.sh, which installs it with Maven, or set DYNAMODB_LOCAL to its folder")
	case dir == "":
		t.Skip("NO DYNAMODB LOCAL: capacity units are NOT tested against a real API: run make integration")
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "java", "-Xmx512m", "-Djava.library.path="+dir, "-cp", filepath.Join(dir, "*"),
		"com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-inMemory", "-disableTelemetry", "-port", port)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), 5*time.Second
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	api := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); pause(ctx, 50*time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("DynamoDB Local ended before it listened: %s", said.String())
		default:
		}
		if c, err := net.Dial("tcp", api.Host); err == nil {
			c.Close()
			return api
		}
	}
	cancel()
	<-ended
	t.Fatalf("DynamoDB Local does not listen after a minute: %s", said.String())
	return nil
}
