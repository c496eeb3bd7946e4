package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// errNoAPI says that there is no DynamoDB API to start.
var errNoAPI = errors.New("no dynalite: run scripts/need.sh, which installs it with npm, or set DYNALITE to its path")

// findAPI is the path of dynalite: $DYNALITE, what scripts/need.sh installed, or
// what is on the PATH.
func findAPI() (string, error) {
	var places []string
	if set := os.Getenv("DYNALITE"); set != "" {
		places = append(places, set)
	}
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, ".bin", "dynalite", "node_modules", ".bin", "dynalite"))
		}
	}
	for _, p := range append(places, "dynalite") {
		if path, err := exec.LookPath(p); err == nil {
			return path, nil
		}
	}
	return "", errNoAPI
}

// startAPI runs a DynamoDB API on a free port of the loopback until ctx ends or
// stop is called.
func startAPI(ctx context.Context) (api *url.URL, stop func(), err error) {
	path, err := findAPI()
	if err != nil {
		return nil, nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path, "--host", "127.0.0.1", "--port", port, "--createTableMs", "0", "--deleteTableMs", "0")
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, nil, err
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	stop = func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.Contains(line, "listening") {
		stop()
		return nil, nil, fmt.Errorf("%s said %q (%v) in place of listening: %s", path, line, err, complaints.String())
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}, stop, nil
}

// freePort is a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
