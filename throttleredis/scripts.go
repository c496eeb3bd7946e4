package throttleredis

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// The script is put together from parts, of which the first one that knows what
// to do answers.
var (
	//go:embed lua/start.lua
	luaStart string
	//go:embed lua/short.lua
	luaShort string
	//go:embed lua/long.lua
	luaLong string
	//go:embed lua/bucket.lua
	luaBucket string
	//go:embed lua/window.lua
	luaWindow string
	//go:embed lua/sliding.lua
	luaSliding string
	//go:embed lua/slots.lua
	luaSlots string
	//go:embed lua/log.lua
	luaLog string
	//go:embed lua/finish.lua
	luaFinish string
	//go:embed lua/expect.lua
	luaExpect string
	//go:embed lua/info.lua
	luaInfo string

	takeScript   = newScript(luaStart + luaShort + luaLong + luaBucket + luaWindow + luaSliding + luaSlots + luaLog + luaFinish)
	expectScript = newScript(luaExpect)
)

// script is the text of one, and the name by which Redis knows it.
type script struct{ text, sha any }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}
