-- Charges one key that is likely to pass, and returns one row; or none if that
-- is for throttle_take to decide: if it does not pass, if the limit is another
-- than before, if something was lost lately, or if the clock is not between $11
-- and $12. Whatever plans there are, this finds the row by its key.
--
-- For a token bucket and the windows the sum is the same. With E the end of the
-- window that holds now, and now itself for a bucket, the state (t, n) of a key
-- that owes nothing is (E, 0), and the charge leads to
--
--   (t + cost, n - rem)               if n >= rem
--   (t + cost + 1, n - rem + count)   if not
--
-- cost and rem being what package limit says that N is worth; for windows cost
-- is 0 and rem is -N. It passes if the sooner of both is it: t - n/count is not
-- above what it may be.
--
-- $1 key, $2 limit, $3 cost, $4 rem, $5 count,
-- $6, $7: E = now - now % $6 + $7
-- $8, $9: what it may be, t compared to that of a charge of a key that owes
-- nothing, and -n where t is equal
-- $10 the largest n that may be charged, $11 <= now < $12
-- $13 for how long after something was lost throttle_take decides. Since when
-- nothing was lost, look.sql and take.sql have told the session: no session
-- outlives what loses something, and to ask it costs less than the table does.
INSERT INTO "throttle" AS s (key, t, n, p, l)
SELECT $1::bytea,
       now - now % $6::bigint + $7::bigint + $3::bigint + CASE WHEN $4::bigint > 0 THEN 1 ELSE 0 END,
       CASE WHEN $4::bigint > 0 THEN $5::bigint ELSE 0 END - $4::bigint,
       now,
       $2::text
  FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now) AS clock
 WHERE now >= $11::bigint AND now < $12::bigint
   AND nullif(current_setting('throttle.since', true), '')::bigint <= now - $13::bigint
ON CONFLICT (key) DO UPDATE
   SET t = CASE WHEN s.t <= excluded.p THEN excluded.t
                WHEN s.n >= $4::bigint THEN s.t + $3::bigint
                ELSE s.t + $3::bigint + 1 END,
       n = CASE WHEN s.t <= excluded.p THEN excluded.n
                WHEN s.n >= $4::bigint THEN s.n - $4::bigint
                ELSE s.n - $4::bigint + $5::bigint END,
       p = -excluded.p
 WHERE s.l = excluded.l AND s.a IS NULL
   AND CASE WHEN s.t <= excluded.p THEN true
            WHEN s.n NOT BETWEEN CASE WHEN $4::bigint < 0 THEN 1 ELSE 0 END AND $10::bigint OR s.t > 4611686018427387904 THEN false
            WHEN s.n >= $4::bigint
            THEN (s.t + $3::bigint, $4::bigint - s.n) <= (excluded.t + $8::bigint, $9::bigint)
            ELSE (s.t + $3::bigint + 1, $4::bigint - s.n - $5::bigint) <= (excluded.t + $8::bigint, $9::bigint) END
RETURNING s.p, s.t, s.n
