-- As decide.sql, for a token bucket that counts in whole microseconds, as most
-- do: one event is worth some, so n is always zero, and less is to be asked.
--
-- $1 key, $2 limit, $3 cost, $4 how far t may be ahead of now before the charge;
-- for longer than both after something was lost throttle_take decides
INSERT INTO "throttle" AS s (key, t, n, p, l)
SELECT $1::bytea, now + $3::bigint, 0, now, $2::text
  FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now) AS clock
 WHERE nullif(current_setting('throttle.since', true), '')::bigint < now - $3::bigint - $4::bigint
ON CONFLICT (key) DO UPDATE
   SET t = greatest(s.t, excluded.p) + $3::bigint, p = -excluded.p
 WHERE s.l = excluded.l AND s.a IS NULL AND s.n = 0 AND s.t <= excluded.p + $4::bigint
RETURNING s.p, s.t
