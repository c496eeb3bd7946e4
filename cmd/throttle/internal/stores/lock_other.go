//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package stores

import (
	"errors"
	"os"
)

// tryLock says that files cannot be shared here.
func tryLock(*os.File) (busy bool, err error) {
	return false, errors.New("files cannot be locked on this system; name a store by -store")
}
