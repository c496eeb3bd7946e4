-- As decide.sql, for a sliding window. With end the end of the window that
-- holds now, and n what was taken in it, t is end + period and p what was taken
-- in the window before; if nothing was taken in it, t is end and n of the window
-- before. It passes if
--
--   cur + N + prev × left/period <= Count, the product rounded, a half down
--
-- which is, w being the room that is left for prev,
--
--   2 × prev × left <= (2 × w + 1) × period
--
-- $1 key, $2 limit, $3 N, $4 period, $5 Count - N
-- $6 for how long after something was lost throttle_take decides
WITH clock AS MATERIALIZED (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now)
INSERT INTO "throttle" AS s (key, t, n, p, l)
SELECT $1::bytea, now - now % $4::bigint + 2 * $4::bigint, $3::bigint, 0, $2::text
  FROM clock
 WHERE nullif(current_setting('throttle.since', true), '')::bigint <= now - $6::bigint
ON CONFLICT (key) DO UPDATE
   SET t = excluded.t,
       n = CASE WHEN s.t = excluded.t THEN s.n ELSE 0 END + $3::bigint,
       p = CASE s.t WHEN excluded.t THEN s.p WHEN excluded.t - $4::bigint THEN s.n ELSE 0 END
 WHERE s.l = excluded.l AND s.a IS NULL
   AND CASE WHEN s.t > excluded.t THEN false
            WHEN s.t <= (SELECT now FROM clock) THEN true
            WHEN s.n < 0 OR s.p < 0 THEN false
            -- Carried over from another period, its windows begin at other times.
            WHEN (excluded.t - s.t) % $4::bigint <> 0 THEN false
            WHEN s.t < excluded.t
            THEN 2 * s.n::numeric * (s.t - (SELECT now FROM clock)) <= (2 * $5::numeric + 1) * $4::bigint
            ELSE s.n <= $5::bigint
             AND 2 * s.p::numeric * (s.t - $4::bigint - (SELECT now FROM clock)) <= (2 * ($5::numeric - s.n) + 1) * $4::bigint END
RETURNING (SELECT now FROM clock), s.t, s.n, s.p, s.xmax = 0 -- whether it is new: else it was locked before
