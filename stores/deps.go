package stores

import (
	_ "github.com/anishathalye/porcupine"
	_ "github.com/gomodule/redigo/redis"
	_ "github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/redis/go-redis/v9"
	_ "github.com/redis/rueidis"
	_ "github.com/throttle-go/throttle"
	_ "github.com/valkey-io/valkey-go"
)
