package throttleredis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// The script is put together from parts. The first part that knows what to do
// answers.
var (
	//go:embed lua/start.lua
	luaStart string
	//go:embed lua/short.lua
	luaShort string
	//go:embed lua/long.lua
	luaLong string
	//go:embed lua/fence.lua
	luaFence string
	//go:embed lua/convert.lua
	luaConvert string
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
	//go:embed lua/check.lua
	luaCheck string

	takeScript   = newScript(luaStart + luaShort + luaLong + luaFence + luaConvert + luaBucket + luaWindow + luaSliding + luaSlots + luaLog + luaFinish)
	expectScript = newScript(luaExpect)
)

// A script is its text, and the hash by which Redis knows it.
type script struct{ text, sha any }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// A reply is what a script returns.
type reply struct {
	now     int64  // microseconds of Unix time, by the clock of Redis
	since   string // since when the fence is, if the script looked at it
	history string // whose the fence is, if it is another than expected
	answers string // one for each ask, see read
}

var errReply = errors.New("the answer of Redis is not one of the script: is Do the client's own function?")

// maxTryAgain bounds how long a script is retried while Redis moves a slot.
const maxTryAgain = 5 * time.Second

// eval runs a script. It retries for maxTryAgain if Redis says to, as it does
// while it moves a slot to another node.
func (s *Store) eval(ctx context.Context, sc *script, args []any) (r reply, err error) {
	pause, waited := 2*time.Millisecond, time.Duration(0)
	for {
		r, err = s.evalOnce(ctx, sc, args)
		if err == nil || !says(err, "TRYAGAIN") || waited > maxTryAgain {
			return r, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return r, &Error{Err: fmt.Errorf("%w, and Redis says %w", ctx.Err(), errors.Unwrap(err))}
		}
		waited += pause
		pause = min(2*pause, 200*time.Millisecond)
	}
}

// evalOnce runs a script by its hash, and by its text if Redis does not know it.
func (s *Store) evalOnce(ctx context.Context, sc *script, args []any) (r reply, err error) {
	args[0], args[1] = evalsha, sc.sha
	v, err := s.Do.send(ctx, args...)
	if err != nil && says(err, "NOSCRIPT") {
		args[0], args[1] = "EVAL", sc.text
		v, err = s.Do(ctx, args...)
	}
	if err != nil {
		err = failed(err)
		if errors.Is(err, ErrFull) {
			s.full.Add(1)
		}
		return r, err
	}
	return replyOf(v)
}

// replyOf decodes what a script returned.
func replyOf(v any) (r reply, err error) {
	b, ok := textOf(v)
	if !ok || len(b) < 8 || len(b) < 8+int(b[7]) {
		return r, &Error{Charged: true, Err: errReply}
	}
	r = reply{now: intAt(b, 0), answers: b[8+b[7]:]}
	switch b[7] {
	case 0:
	case 7:
		r.since = b[8:15]
	case 7 + historyLen:
		r.since, r.history = b[8:15], b[15:15+historyLen]
	default:
		return r, &Error{Charged: true, Err: errReply}
	}
	return r, nil
}

// textOf returns a bulk string, of whichever type the client gives it.
func textOf(v any) (text string, ok bool) {
	switch v := v.(type) {
	case []byte:
		return string(v), true
	case string:
		return v, true
	}
	return "", false
}

// split splits off the first n answers.
func (r *reply) split(n int) (answers, rest string, err error) {
	rest = r.answers
	for range n {
		k := answerLen(rest)
		if k == 0 {
			return "", "", &Error{Charged: true, Err: errReply}
		}
		rest = rest[k:]
	}
	return r.answers[:len(r.answers)-len(rest)], rest, nil
}
