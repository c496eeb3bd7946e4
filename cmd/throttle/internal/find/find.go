// Package find is the command 'throttle find'.
package find

import (
	"context"
	"io"

	"github.com/throttle-go/throttle/cmd/throttle/internal/probe"
)

// Run identifies a rate limiter from outside.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	return probe.Run(ctx, args, stdin, stdout, stderr)
}
