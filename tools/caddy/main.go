// Caddy with its rate limit module, as xcaddy builds it: a peer to measure beside,
// of which nothing is linked or copied elsewhere.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-ratelimit"
)

func main() { caddycmd.Main() }
