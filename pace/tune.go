package pace

import (
	"fmt"
	"os"
	"strconv"
)

func env(name string, v float64) float64 {
	if s := os.Getenv(name); s != "" {
		v, _ = strconv.ParseFloat(s, 64)
	}
	return v
}

var (
	growthPerT = env("G", 0.08)
	steep      = env("STEEP", 0.55)
	gentle     = env("L", 0.1)
	mostTrust  = env("A", 100)
	fewest     = env("FEW", 10)
	bends      = env("BEND", 0.4)
	bendsLow   = env("BENDLOW", 0.4)
	doubling   = env("DOUB", 0.35)
	youth      = env("YOUTH", 2)
	minTrust   = env("MINA", 1)
	half       = env("HALF", 0.5)
	tfew       = env("TFEW", 1)
	deadLive   = env("DEADLIVE", 1)
	hKind      = env("HKIND", 0)
	hK         = env("HK", 2)
	hF         = env("HF", 0.5)
	hMin       = env("HMIN", 3)
	refOver    = env("REFOVER", 16)
	refMost    = env("REFMOST", 0.25)
	accum      = env("ACC", 1)
	lRow       = env("LROW", 0.05)
	catch      = env("CATCH", 3)
	inRow      = env("INROW", .6)
	firstMost  = env("FIRST", 4)
	youngest   = env("YOUNG", 0)
)

var debug = os.Getenv("DBG") != ""

func dbg(f string, a ...any) {
	if debug {
		fmt.Fprintf(os.Stderr, f, a...)
	}
}
