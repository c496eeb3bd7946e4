package pace

import (
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
	mostTrust  = env("A", 10)
	fewest     = env("FEW", 10)
	bends      = env("BEND", 0.4)
	bendsLow   = env("BENDLOW", 0.4)
	doubling   = env("DOUB", 0.35)
	youth      = env("YOUTH", 2)
	minTrust   = env("MINA", 1)
	half       = env("HALF", 0.5)
	tfew       = env("TFEW", 1)
	catch      = env("CATCH", 3)
	inRow      = env("INROW", .6)
	firstMost  = env("FIRST", 4)
	youngest   = env("YOUNG", 0)
)
