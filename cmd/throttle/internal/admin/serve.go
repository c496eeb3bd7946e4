package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Serve serves c on l until ctx ends, and then ends what is in flight within 5
// seconds. It closes l. The error is one line: what in c is wrong, before
// anything was served; or why l failed.
func Serve(ctx context.Context, c Config, l net.Listener) error {
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(end), server.Close())
}
