-- Finds one key, and changes nothing: for questions that are likely to be
-- refused, and such that cost nothing. Returns the clock, the row, or nulls if
-- there is none, and since when nothing was lost, or null if that is not known.
CREATE FUNCTION "throttle_look"(
  k bytea, OUT at bigint, OUT t bigint, OUT n bigint, OUT p bigint, OUT l text, OUT since bigint
) LANGUAGE plpgsql
SET enable_seqscan = off -- a plan made for a small table must do when it is large
AS $look$
DECLARE
  counters bigint[];
BEGIN
  SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint, s.t, s.n, s.p, s.l, f.since, s.a
    INTO at, t, n, p, l, since, counters
    FROM (SELECT) AS one LEFT JOIN "throttle" s ON s.key = k LEFT JOIN "throttle_fence" f ON f.one;
  IF array_length(counters, 1) = 5 AND counters[2] > at THEN -- it is not all: see tables.sql
    t := 4611686018427387904; l := '';
  END IF;
  IF current_setting('throttle.since', true) IS DISTINCT FROM since::text THEN
    PERFORM set_config('throttle.since', since::text, false); -- for decide.sql
  END IF;
END
$look$;
