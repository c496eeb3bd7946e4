//go:build !linux || !amd64

package jump

func install() error { return ErrElsewhere }
