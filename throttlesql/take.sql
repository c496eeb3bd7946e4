-- Answers several questions as one, all or nothing, as limit.TakeAll does: it
-- decides who passes and what to keep, and returns the states before, from which
-- Go works out the answers. It looks first, and locks rows only if there is
-- something to write, in the order of the keys, so that no two lock each other
-- out. What it decides at a look is as of that look.
--
--   keys   sorted, each once
--   lims   their limits
--   olds   the limit that a key is to be carried over from, or null
--   a      24 numbers for each key, see numbers.go
--
--   at     the clock, in microseconds of Unix time
--   ok     whether all pass; null: ask again, nothing was changed
--   states four numbers for each key: its State before and a zero; or, of slots
--          and logs, when and how much was taken, twice: see answer.go
--   under  what a key was written under, where that is another limit; what is
--          wrong with its row after a '!', where it cannot be read; else null
--   added  how many rows are new
CREATE FUNCTION "throttle_take"(
  keys bytea[], lims text[], olds text[], a bigint[],
  OUT at bigint, OUT ok boolean, OUT states bigint[], OUT under text[], OUT added int
) LANGUAGE plpgsql
SET enable_seqscan = off -- a plan made for a small table must do when it is large
AS $take$
DECLARE
  longest CONSTANT bigint := 9223372036854775807;
  skew CONSTANT bigint := 1000000;
  beginning CONSTANT bigint := -4611686018427387904; -- of time: no sum with it overflows
  m CONSTANT int := cardinality(keys);
  locked boolean := false;
  again boolean;
  dirty boolean[];
  since bigint;
  r record;
  b int;         -- where the numbers of key i begin in a
  rt bigint[]; rn bigint[]; rp bigint[]; rl text[]; ra text[]; -- rows as found
  ct bigint[]; cn bigint[]; cp bigint[]; -- to be kept if refused
  wt bigint[]; wn bigint[]; wp bigint[]; -- to be kept if passed
  ca text[]; wa text[]; -- of slots, the counters; of a log, what is to be written
  anew boolean[];
  -- of one key
  kind bigint; n bigint; least_n bigint; debt boolean; cnt bigint; per bigint; dbl bigint;
  t0 bigint; n0 bigint; p0 bigint; -- the state before
  t1 bigint; n1 bigint; p1 bigint; -- the same, clamped
  t2 bigint; n2 bigint; p2 bigint; -- the state after
  latest bigint; e bigint; e_since bigint; used bigint; free bigint; over boolean; pass boolean; g bigint;
  du bigint; dr bigint; su bigint; sr bigint; cu bigint; cr bigint; -- debt, sum, cost
  events numeric; part numeric; whole numeric; fence bigint; pre bigint; memo text;
  fkind bigint; fcnt bigint; fper bigint; fdbl bigint; same boolean; -- of the limit carried over from
  word text; least_of bigint; amount bigint; base bigint; moved boolean; shift int; jn int; lo int;
  ra1 text; ra2 text; d1 boolean; d2 boolean; answer bigint[];
  had bigint[]; ring bigint[]; size int; slot bigint; last bigint; newest bigint; edge bigint; need bigint;
  prev bigint; cur bigint; w bigint; w_end bigint; left_us bigint; back bigint; big numeric;
BEGIN
  added := 0;
  LOOP
    -- Find the rows.
    FOR i IN 1..m LOOP
      rt[i] := 0; rn[i] := 0; rp[i] := 0; rl[i] := NULL; ra[i] := NULL;
      IF locked THEN
        LOOP
          SELECT s.t, s.n, s.p, s.l, s.a INTO r FROM "throttle" s WHERE s.key = keys[i] FOR NO KEY UPDATE;
          EXIT WHEN FOUND;
          INSERT INTO "throttle" AS s (key, t, n, p, l) VALUES (keys[i], 0, 0, 0, lims[i])
            ON CONFLICT (key) DO NOTHING RETURNING s.t, s.n, s.p, s.l, s.a INTO r;
          added := added + CASE WHEN FOUND THEN 1 ELSE 0 END;
          EXIT WHEN FOUND;
        END LOOP;
        rt[i] := r.t; rn[i] := r.n; rp[i] := r.p; rl[i] := r.l; ra[i] := r.a;
      ELSE
        SELECT s.t, s.n, s.p, s.l, s.a INTO r FROM "throttle" s WHERE s.key = keys[i];
        IF FOUND THEN
          rt[i] := r.t; rn[i] := r.n; rp[i] := r.p; rl[i] := r.l; ra[i] := r.a;
        END IF;
      END IF;
    END LOOP;
    at := (date_part('epoch', clock_timestamp()) * 1000000)::bigint;
    SELECT greatest(f.since, beginning) INTO since FROM "throttle_fence" f WHERE f.one;
    IF since IS NULL OR since > at THEN
      -- It is gone, or was written by a clock that was put back since, or just
      -- after this one was read. Of what was taken before a clock was put back
      -- it is not known how long ago that is: it counts as just now. As others
      -- wait for this row, it is written by itself, with no other row locked.
      at := (date_part('epoch', clock_timestamp()) * 1000000)::bigint;
      IF NOT locked THEN
        INSERT INTO "throttle_fence" AS f VALUES (true, at)
          ON CONFLICT (one) DO UPDATE SET since = excluded.since WHERE f.since > excluded.since;
      END IF;
      ok := NULL; states := array_fill(0::bigint, ARRAY[4*m]); under := NULL;
      RETURN;
    END IF;

    IF current_setting('throttle.since', true) IS DISTINCT FROM since::text THEN
      PERFORM set_config('throttle.since', since::text, false); -- for decide.sql
    END IF;

    ok := true; again := false; states := '{}'; under := NULL;
    FOR i IN 1..m LOOP
      b := (i - 1) * 24;
      fence := 0; pre := 0; memo := NULL;
      kind := a[b+1]; n := a[b+2]; least_n := a[b+3]; debt := a[b+4] <> 0; cnt := a[b+5]; per := a[b+6]; dbl := a[b+7];
      t0 := rt[i]; n0 := rn[i]; p0 := rp[i]; anew[i] := false;
      IF t0 > at AND split_part(rl[i], ' ', 2) = 'sliding-slots' THEN
        had := ra[i]::bigint[];
        IF (array_ndims(had) = 1 AND array_lower(had, 1) = 1 AND cardinality(had) BETWEEN 3 AND 10002
            AND array_position(had, NULL) IS NULL AND had[1] > 0 AND NOT 0 > ANY (had)
            AND (had[2] + 1::numeric) * had[1] < 4611686018427387904) IS NOT TRUE THEN
          IF under IS NULL THEN
            under := array_fill(NULL::text, ARRAY[m]);
          END IF;
          again := true;
          under[i] := '!its column a, ' || coalesce(left(ra[i], 60), 'null') || ', is not the width of a slot, the newest slot and what was taken in each';
          states := states || ARRAY[0, 0, 0, 0]::bigint[];
          CONTINUE;
        END IF;
      END IF;
      IF ra[i] IS NOT NULL AND split_part(rl[i], ' ', 2) <> 'sliding-slots' THEN
        had := ra[i]::bigint[];
        memo := CASE WHEN cardinality(had) = 5 AND had[2] > at AND array_position(had, NULL) IS NULL THEN ra[i] END;
      END IF;
      IF memo IS NOT NULL AND kind <= 4 AND rl[i] <> lims[i] AND had[1] = hashtextextended(lims[i], 0) THEN
        -- The limit before the one of the row: it has kept its state.
        had := memo::bigint[]; memo := NULL; anew[i] := true;
        t0 := had[2]; n0 := had[3]; p0 := CASE WHEN kind = 4 THEN had[4] ELSE 0 END;
        IF kind = 0 THEN
          latest := at + a[b+12] + CASE WHEN a[b+13] > 0 THEN 1 ELSE 0 END + skew;
          IF t0 > latest THEN
            t0 := latest; n0 := 0;
          END IF;
          big := (t0 - at)::numeric * cnt - CASE WHEN n0 <= 0 OR n0 >= cnt THEN 0 ELSE n0 END + had[5]::numeric * per;
          IF div(big, cnt) > a[b+12] OR div(big, cnt) = a[b+12] AND big - div(big, cnt) * cnt > a[b+13] THEN
            big := a[b+12]::numeric * cnt + a[b+13];
          END IF;
          du := div(big, cnt); dr := big - div(big, cnt) * cnt;
          t0 := at + du + CASE WHEN dr > 0 THEN 1 ELSE 0 END;
          n0 := CASE WHEN dr > 0 THEN cnt - dr ELSE 0 END;
        ELSIF kind = 4 AND t0 - at <= per AND had[5] > 0 THEN
          t0 := t0 + per; p0 := n0; n0 := had[5];
        ELSE
          n0 := least(greatest(n0, 0)::numeric + had[5], longest);
        END IF;
      ELSIF t0 > at AND rl[i] <> lims[i] THEN
        memo := NULL;
        word := split_part(rl[i], ' ', 2);
        IF kind = 5 AND word = 'sliding-slots' OR kind = 6 AND word = 'sliding-log' THEN
          NULL; -- what was taken under the old limit counts under the new one
        ELSIF olds[i] IS DISTINCT FROM rl[i] THEN
          IF under IS NULL THEN
            under := array_fill(NULL::text, ARRAY[m]);
          END IF;
          again := true;
          under[i] := coalesce(nullif(translate(rl[i], E'\n', '?'), ''), '?'); -- lines, none of them empty
          states := states || ARRAY[0, 0, 0, 0]::bigint[];
          CONTINUE;
        ELSE
          -- Carried over from another limit, as limit.Change does. First what was
          -- used: events, and part/whole of another.
          fcnt := a[b+16]; fper := a[b+17]; fkind := a[b+20]; same := a[b+21] = 1;
          fdbl := CASE WHEN fcnt > longest / 2 THEN longest ELSE 2 * fcnt END;
          part := 0; whole := 1;
          IF fkind = 0 THEN
            latest := at + a[b+18] + CASE WHEN a[b+19] > 0 THEN 1 ELSE 0 END + skew;
            t1 := least(t0, latest); n1 := CASE WHEN t0 > latest OR n0 <= 0 OR n0 >= fcnt THEN 0 ELSE n0 END;
            big := (t1 - at)::numeric * fcnt - n1;
            events := least(div(big, fper), longest); whole := fper;
            part := CASE WHEN events = longest THEN 0 ELSE big - events * fper END;
          ELSIF fkind <= 3 THEN
            events := least(greatest(n0, 0), fdbl);
          ELSIF fkind = 4 THEN
            latest := at + greatest(fper, skew);
            t1 := least(t0, latest - latest % fper + 2 * fper);
            cur := 0; w_end := t1; prev := least(greatest(n0, 0), fdbl);
            IF t1 - at > fper THEN
              cur := prev; w_end := t1 - fper; prev := least(greatest(p0, 0), fdbl);
            END IF;
            left_us := least(w_end - at, fper);
            big := prev::numeric * left_us; whole := fper;
            events := cur + div(big, fper); part := big - div(big, fper) * fper;
            IF events >= fdbl THEN
              events := fdbl; part := 0;
            END IF;
          ELSIF fkind = 5 THEN
            had := ra[i]::bigint[]; events := 0;
            FOR j IN greatest(at / had[1] - had[2] + 3, 3)..cardinality(had) LOOP
              events := events + had[j];
            END LOOP;
          ELSE
            SELECT x.upto - greatest(coalesce(f.before, x.upto), n0) INTO events
              FROM (SELECT v.instant, v.upto FROM "throttle_log" v
                     WHERE v.id = p0 ORDER BY v.instant DESC LIMIT 1) AS x
              LEFT JOIN LATERAL (SELECT v.before FROM "throttle_log" v
                     WHERE v.id = p0 AND v.instant > greatest(at, x.instant) - fper
                     ORDER BY v.instant LIMIT 1) AS f ON true;
            events := greatest(events, 0); -- of null too
          END IF;
          used := least(events + CASE WHEN part > 0 THEN 1 ELSE 0 END, longest);
          -- Then the state that has used as much. What it cannot hold is forgiven;
          -- the row keeps the state that it comes from, and what is taken from now
          -- on, for those that still have the old limit.
          over := used > dbl;
          word := '{' || concat_ws(',', hashtextextended(rl[i], 0), t0, n0, p0, 0) || '}';
          IF kind = 0 THEN
            p0 := 0;
            big := events * per + div(part * per + (whole - 1), whole);
            over := div(big, cnt) > a[b+12] OR div(big, cnt) = a[b+12] AND big - div(big, cnt) * cnt > a[b+13];
            IF over THEN
              du := a[b+12]; dr := a[b+13];
            ELSE
              du := div(big, cnt); dr := big - div(big, cnt) * cnt;
            END IF;
            t0 := at + du + CASE WHEN dr > 0 THEN 1 ELSE 0 END;
            n0 := CASE WHEN dr > 0 THEN cnt - dr ELSE 0 END;
          ELSIF kind <= 3 THEN
            n0 := used; p0 := 0;
            IF used = 0 THEN
              t0 := 0;
            ELSIF same THEN
              NULL;
            ELSIF kind = 2 AND fkind = 2 THEN
              t0 := at + div(least(t0 - at, fper)::numeric * per + (fper - 1), fper);
            ELSIF kind = 3 THEN -- else asked again below
              t0 := CASE WHEN at >= a[b+10] THEN at + 1 WHEN at < a[b+9] THEN a[b+9] ELSE a[b+10] END;
            ELSE
              t0 := at + per - CASE WHEN kind = 1 THEN at % per ELSE 0 END;
            END IF;
          ELSIF kind = 4 THEN
            IF fkind <> 4 THEN
              cur := least(used, dbl); prev := 0; w_end := at - at % per + per;
            ELSE
              IF NOT same THEN
                left_us := div(left_us::numeric * per + (fper - 1), fper); w_end := at + left_us;
              END IF;
              big := prev::numeric * left_us;
              w := div(big, per);
              IF big - w::numeric * per > per - (big - w::numeric * per) THEN
                w := w + 1;
              END IF;
              IF greatest(cur, prev) > dbl OR cur::numeric + w > fdbl THEN
                cur := least(used, dbl); prev := 0;
              END IF;
            END IF;
            t0 := CASE WHEN cur > 0 THEN w_end + per WHEN prev > 0 THEN w_end ELSE 0 END;
            n0 := CASE WHEN cur > 0 THEN cur ELSE prev END;
            p0 := CASE WHEN cur > 0 THEN prev ELSE 0 END;
          ELSE
            pre := least(used, dbl); t0 := 0;
          END IF;
          memo := CASE WHEN over AND kind <= 4 AND fkind <= 4 THEN word END;
          anew[i] := true;
        END IF;
      ELSE
        IF kind NOT IN (4, 6) THEN
          p0 := 0;
        END IF;
        memo := CASE WHEN rl[i] = lims[i] THEN memo END;
      END IF;
      IF t0 <= at THEN
        t0 := 0; n0 := 0; p0 := 0;
      END IF;

      IF kind = 0 THEN -- a token bucket
        cu := a[b+8]; cr := a[b+9];
        -- Used up when something was lost.
        t1 := since + a[b+10] + CASE WHEN a[b+11] > 0 THEN 1 ELSE 0 END;
        n1 := CASE WHEN a[b+11] > 0 THEN cnt - a[b+11] ELSE 0 END;
        IF t1 > at AND (t0, -n0) < (t1, -n1) THEN
          t0 := t1; n0 := n1;
        END IF;
        t1 := t0; n1 := n0; p1 := 0;
        latest := at + a[b+12] + CASE WHEN a[b+13] > 0 THEN 1 ELSE 0 END + skew;
        IF t1 > latest THEN
          t1 := latest; n1 := 0;
        END IF;
        IF t1 <= at THEN
          du := 0; dr := 0;
        ELSIF n1 <= 0 OR n1 >= cnt THEN
          du := t1 - at; dr := 0;
        ELSE
          du := t1 - at - 1; dr := cnt - n1;
        END IF;
        over := (a[b+10], a[b+11]) < (du, dr);
        IF dr >= cnt - cr THEN
          su := du + cu + 1; sr := dr - (cnt - cr);
        ELSE
          su := du + cu; sr := dr + cr;
        END IF;
        pass := true; g := n;
        IF n = 0 THEN
          pass := NOT over;
        ELSIF NOT (n < 0 OR debt OR (su, sr) <= (a[b+10], a[b+11])) THEN
          free := 0;
          IF least_n > 0 AND NOT over THEN
            free := div((a[b+10] - du)::numeric * cnt + (a[b+11] - dr), per);
          END IF;
          pass := least_n > 0 AND least_n <= free;
          g := CASE WHEN pass THEN free ELSE 0 END;
          IF g > 0 THEN
            big := g::numeric * per;
            cu := div(big, cnt); cr := big - div(big, cnt) * cnt;
            IF dr >= cnt - cr THEN
              su := du + cu + 1; sr := dr - (cnt - cr);
            ELSE
              su := du + cu; sr := dr + cr;
            END IF;
          END IF;
        END IF;
        t2 := t1; n2 := n1; p2 := 0;
        IF g <> 0 THEN
          IF g < 0 THEN
            IF (du, dr) < (cu, cr) THEN
              su := 0; sr := 0;
            ELSIF dr < cr THEN
              su := du - cu - 1; sr := dr - cr + cnt;
            ELSE
              su := du - cu; sr := dr - cr;
            END IF;
          ELSIF (a[b+12], a[b+13]) < (su, sr) THEN -- owed beyond what may be
            IF (a[b+12], a[b+13]) < (du, dr) THEN
              su := du; sr := dr;
            ELSE
              su := a[b+12]; sr := a[b+13];
            END IF;
          END IF;
          IF su = 0 AND sr = 0 THEN
            t2 := 0; n2 := 0;
          ELSE
            t2 := at + su + CASE WHEN sr > 0 THEN 1 ELSE 0 END;
            n2 := CASE WHEN sr > 0 THEN cnt - sr ELSE 0 END;
          END IF;
        END IF;

      ELSIF kind <= 3 THEN -- a fixed, first-hit or calendar window
        IF kind = 1 THEN
          e := at - at % per + per;
          e_since := since - since % per + per;
          latest := at + greatest(per, skew);
          latest := latest - latest % per + per;
        ELSIF kind = 2 THEN
          e := at + per;
          e_since := since + per;
          latest := e + skew;
        ELSE
          e := CASE WHEN at < a[b+8] OR at >= a[b+10] THEN NULL WHEN at < a[b+9] THEN a[b+9] ELSE a[b+10] END;
          IF e IS NULL THEN
            again := true;
            states := states || ARRAY[t0, n0, p0, 0];
            CONTINUE;
          END IF;
          e_since := CASE WHEN since >= CASE WHEN at < a[b+9] THEN a[b+8] ELSE a[b+9] END THEN e ELSE 0 END;
          latest := CASE WHEN t0 <= at + a[b+12] THEN longest WHEN at < a[b+9] THEN a[b+10] ELSE a[b+11] END;
        END IF;
        IF e_since > at THEN
          -- Used up when something was lost; from then on the Count comes free
          -- evenly, as nobody should have to wait for the end of a month. The
          -- row says what was taken since then, which adds to it.
          w := CASE WHEN kind < 3 THEN per WHEN at < a[b+9] THEN a[b+9] - a[b+8] ELSE a[b+10] - a[b+9] END;
          fence := greatest(cnt - div(cnt::numeric * greatest(at - since, 0), w), 0);
          -- A row that is ahead of this window, as the clock was, was not
          -- written with all that was lost either.
          IF t0 > e_since OR t0 > at AND abs(rp[i]) >= since THEN
            n0 := CASE WHEN n0 > longest - fence THEN longest ELSE n0 + fence END;
          ELSE
            n0 := fence;
          END IF;
          t0 := greatest(t0, e_since);
        END IF;
        t1 := least(t0, latest); n1 := n0; p1 := 0;
        used := 0;
        IF t1 > at THEN
          e := t1; used := least(greatest(n1, 0), dbl);
        END IF;
        free := greatest(cnt - used, 0);
        over := used > cnt;
        pass := true; g := n;
        IF n = 0 THEN
          pass := NOT over;
        ELSIF NOT (debt OR n <= free) THEN
          pass := least_n > 0 AND least_n <= free;
          g := CASE WHEN pass THEN free ELSE 0 END;
        END IF;
        t2 := t1; n2 := n1 - fence; p2 := 0;
        IF g <> 0 THEN
          used := CASE WHEN g > 0 AND used > longest - g THEN longest ELSE greatest(used + g, 0) END;
          t2 := CASE WHEN used = 0 AND fence = 0 THEN 0 ELSE e END; n2 := used - fence;
        END IF;

      ELSIF kind = 4 THEN -- a sliding window
        e := at - at % per + per;
        e_since := since - since % per + 2 * per;
        latest := at + greatest(per, skew);
        latest := latest - latest % per + 2 * per;
        IF e_since > at AND t0 > e_since THEN -- that was in the window before it
          p0 := greatest(p0, cnt);
        ELSIF e_since > at THEN
          p0 := CASE WHEN t0 = e_since THEN p0 ELSE n0 END;
          n0 := CASE WHEN t0 = e_since THEN greatest(n0, cnt) ELSE cnt END;
          t0 := e_since;
        END IF;
        t1 := least(t0, latest); n1 := n0; p1 := p0;
        cur := 0; prev := 0; w_end := e;
        IF t1 - at > per THEN
          w_end := t1 - per; cur := least(greatest(n1, 0), dbl); prev := least(greatest(p1, 0), dbl);
        ELSIF t1 > at THEN
          w_end := t1; prev := least(greatest(n1, 0), dbl);
        END IF;
        left_us := least(w_end - at, per);
        -- weight = prev * left/period, rounded, a half down
        big := prev::numeric * left_us;
        w := div(big, per);
        IF big - w::numeric * per > per - (big - w::numeric * per) THEN
          w := w + 1;
        END IF;
        used := CASE WHEN cur > longest - w THEN longest ELSE cur + w END;
        free := greatest(cnt - used, 0);
        over := used > cnt;
        pass := true; g := n;
        IF n = 0 THEN
          pass := NOT over;
        ELSIF NOT (debt OR n <= free) THEN
          pass := least_n > 0 AND least_n <= free;
          g := CASE WHEN pass THEN free ELSE 0 END;
        END IF;
        t2 := t1; n2 := n1; p2 := p1;
        IF g <> 0 THEN
          IF g < 0 THEN
            back := -greatest(g, -longest);
            amount := least(back, cur);
            cur := cur - amount;
            prev := prev - least(back - amount, prev);
          ELSE
            cur := greatest(cur, least(CASE WHEN cur > longest - g THEN longest ELSE cur + g END, dbl - least(w, dbl)));
          END IF;
          IF cur > 0 THEN
            t2 := w_end + per; n2 := cur; p2 := prev;
          ELSIF prev > 0 THEN
            t2 := w_end; n2 := prev; p2 := 0;
          ELSE
            t2 := 0; n2 := 0; p2 := 0;
          END IF;
        END IF;

      ELSIF kind = 5 THEN -- sliding slots
        w := a[b+8]; size := a[b+9] + 1;
        slot := at / w;
        had := CASE WHEN t0 > 0 THEN ra[i]::bigint[] END;
        ring := array_fill(0::bigint, ARRAY[size]);
        IF had IS NULL THEN
          last := slot; ring[size] := pre;
        ELSIF had[1] = w AND cardinality(had) = size + 2 THEN
          last := had[2]; ring := had[3:];
        ELSE -- other slots: what was taken goes to where its slot ended
          last := ((had[2] + 1) * had[1] - 1) / w;
          FOR j IN 3..cardinality(had) LOOP
            e := ((had[2] - (cardinality(had) - j) + 1) * had[1] - 1) / w;
            IF e > last - size THEN
              ring[size-(last-e)] := ring[size-(last-e)] + had[j];
            END IF;
          END LOOP;
        END IF;
        latest := (at + skew) / w; moved := false;
        IF last > latest THEN
          shift := least(last - latest, size);
          amount := 0;
          FOR j IN size-shift+1..size LOOP
            amount := amount + ring[j];
          END LOOP;
          ring := array_fill(0::bigint, ARRAY[shift]) || ring[:size-shift];
          ring[size] := ring[size] + amount;
          last := latest;
          moved := amount > 0;
        END IF;
        e := since / w;
        IF e > slot - size THEN -- used up when something was lost
          IF e > last THEN
            shift := least(e - last, size);
            ring := ring[shift+1:] || array_fill(0::bigint, ARRAY[shift]);
            last := e;
          END IF;
          lo := greatest(size - (last - e), 1);
          amount := cnt;
          FOR j IN 1..lo LOOP
            amount := amount - least(ring[j], amount);
          END LOOP;
          ring[lo] := ring[lo] + amount;
        END IF;
        jn := size; -- of the newest that counts
        WHILE jn > 0 AND ring[jn] = 0 LOOP
          jn := jn - 1;
        END LOOP;
        newest := last - (size - jn);
        IF jn > 0 THEN
          slot := greatest(slot, newest);
        END IF;
        IF last > slot THEN -- what is newer is empty
          shift := least(last - slot, size);
          ring := array_fill(0::bigint, ARRAY[shift]) || ring[:size-shift];
          last := slot; jn := least(jn + shift, size);
        END IF;
        lo := least(slot - last + 1, size + 1); -- of the oldest that counts
        used := 0;
        FOR j IN lo..size LOOP
          used := used + ring[j];
        END LOOP;
        free := greatest(cnt - used, 0);
        over := used > cnt;
        least_of := CASE WHEN least_n > 0 THEN least(least_n, n) ELSE n END;
        pass := true; g := n;
        IF n = 0 THEN
          pass := NOT over;
        ELSIF NOT (debt OR n <= free) THEN
          pass := least_n > 0 AND least_n <= free;
          g := CASE WHEN pass THEN free ELSE 0 END;
        END IF;
        ra1 := array_to_string(ARRAY[w, last] || ring, ',');
        t1 := CASE WHEN jn = 0 THEN 0 ELSE (last - (size - jn) + size) * w END; n1 := 0; p1 := 0;
        t2 := t1; n2 := 0; p2 := 0; ra2 := ra1;
        d1 := moved; d2 := moved;
        -- What is told: what was taken up to an edge, and after it. The edge is
        -- the slot that must leave before it passes, or the newest that is
        -- left after giving back.
        edge := jn; need := 0;
        IF NOT pass AND least_of <= cnt THEN
          need := used - (cnt - least_of);
        ELSIF pass AND n < 0 THEN
          need := used - least(used, -greatest(n, -longest));
        END IF;
        IF need > 0 THEN
          edge := lo; amount := ring[lo];
          WHILE amount < need LOOP
            edge := edge + 1; amount := amount + ring[edge];
          END LOOP;
        END IF;
        amount := 0;
        FOR j IN lo..edge LOOP
          amount := amount + ring[j];
        END LOOP;
        answer := ARRAY[(last - (size - edge)) * w, amount, (last - (size - jn)) * w, used - amount];
        IF pass AND g > 0 THEN
          g := least(g, greatest(dbl - used, 0)); -- more is forgiven
          IF g > 0 THEN
            shift := least(slot - last, size);
            ring := ring[shift+1:] || array_fill(0::bigint, ARRAY[shift]);
            ring[size] := ring[size] + g;
            t2 := (slot + size) * w;
            ra2 := array_to_string(ARRAY[w, slot] || ring, ',');
            d2 := true;
          END IF;
        ELSIF pass AND g < 0 AND used > 0 THEN
          back := least(used, -greatest(g, -longest));
          FOR j IN REVERSE size..lo LOOP
            amount := least(ring[j], back);
            ring[j] := ring[j] - amount; back := back - amount;
          END LOOP;
          ra2 := array_to_string(ARRAY[w, last] || ring, ',');
          d2 := true;
        END IF;
        ra1 := '{' || ra1 || '}'; ra2 := '{' || ra2 || '}';

      ELSIF kind = 6 THEN -- a sliding log
        p1 := CASE WHEN t0 > 0 THEN p0 ELSE 0 END; -- the id of its entries
        n1 := CASE WHEN t0 > 0 THEN n0 ELSE 0 END; -- what had left when something was taken
        t1 := t0; ra1 := NULL; ra2 := NULL; moved := false;
        latest := at + skew;
        least_of := CASE WHEN least_n > 0 THEN least(least_n, n) ELSE n END;
        need := CASE WHEN n < 0 THEN greatest(n, -longest) WHEN least_of <= cnt THEN least_of - cnt ELSE 0 END;
        LOOP
          SELECT x.instant, x.upto, f.before, y.instant AS edge, y.upto AS edge_upto INTO r
            FROM (SELECT v.instant, v.upto FROM "throttle_log" v
                   WHERE v.id = p1 ORDER BY v.instant DESC LIMIT 1) AS x
            LEFT JOIN LATERAL (SELECT v.before FROM "throttle_log" v
                   WHERE v.id = p1 AND v.instant > greatest(at, x.instant) - per
                   ORDER BY v.instant LIMIT 1) AS f ON true
            LEFT JOIN LATERAL (SELECT v.instant, v.upto FROM "throttle_log" v
                   WHERE v.id = p1 AND v.upto >= x.upto + need
                   ORDER BY v.upto LIMIT 1) AS y ON true;
          IF FOUND THEN
            EXIT WHEN r.instant <= latest OR NOT locked;
            -- The clock went back: what is further ahead counts as of latest.
            WITH ahead AS (DELETE FROM "throttle_log" v WHERE v.id = p1 AND v.instant > latest RETURNING v.before)
            INSERT INTO "throttle_log" AS v (id, instant, upto, before, until)
            SELECT p1, latest, r.upto, min(h.before), latest + per FROM ahead h
            ON CONFLICT (id, instant) DO UPDATE SET upto = excluded.upto;
            t1 := latest + per;
            moved := true;
            CONTINUE;
          END IF;
          -- Carried over from another kind, or used up when something was lost.
          last := CASE WHEN pre > 0 THEN at ELSE since END;
          used := CASE WHEN since + per > at THEN greatest(pre, cnt) ELSE pre END;
          EXIT WHEN used = 0 OR NOT locked;
          IF p1 = 0 THEN
            p1 := nextval('"throttle_id"');
          END IF;
          INSERT INTO "throttle_log" (id, instant, upto, before, until) VALUES (p1, last, used, 0, last + per);
          t1 := last + per;
        END LOOP;
        amount := 0; edge := 0; base := n1;
        IF FOUND THEN
          IF r.instant > latest THEN
            moved := true;
          END IF;
          last := r.instant;
          base := greatest(coalesce(r.before, r.upto), n1); -- what has left
          used := greatest(r.upto - base, 0);
          edge := last; amount := used;
          IF r.edge_upto > base THEN
            edge := r.edge; amount := r.edge_upto - base;
          END IF;
        ELSIF used > 0 THEN
          edge := last; amount := used;
        ELSE
          last := 0;
        END IF;
        free := greatest(cnt - used, 0);
        over := used > cnt;
        pass := true; g := n;
        IF n = 0 THEN
          pass := NOT over;
        ELSIF NOT (debt OR n <= free) THEN
          pass := least_n > 0 AND least_n <= free;
          g := CASE WHEN pass THEN free ELSE 0 END;
        END IF;
        IF pass AND n >= 0 THEN
          edge := last; amount := used;
        END IF;
        answer := CASE WHEN used = 0 THEN ARRAY[0, 0, 0, 0]::bigint[] ELSE ARRAY[edge, amount, last, used - amount] END;
        g := CASE WHEN g < 0 THEN -least(used, -greatest(g, -longest)) ELSE least(g, greatest(dbl - used, 0)) END;
        p2 := p1;
        n2 := CASE WHEN g > 0 THEN base ELSE n1 END;
        t2 := CASE WHEN g > 0 THEN greatest(at, last) + per ELSE t1 END;
        ra2 := g; -- read below
        d1 := moved; d2 := moved OR pass AND g <> 0;
      END IF;

      ok := ok AND pass;
      IF kind <= 4 THEN
        answer := ARRAY[t0, n0, p0, 0];
        d1 := (t1, n1, p1) <> (t0, n0, p0);
        ra1 := memo; ra2 := memo;
        IF memo IS NOT NULL AND g <= -longest THEN
          ra2 := NULL; -- store.Clear forgets all
        ELSIF memo IS NOT NULL AND g <> 0 THEN
          had := memo::bigint[];
          had[5] := least(greatest(had[5]::numeric + g, 0), longest);
          ra2 := had::text;
        END IF;
        -- What has passed is forgotten by whatever is charged or given back.
        d2 := d1 OR g <> 0 AND ((t2, n2, p2) <> (rt[i], rn[i], CASE WHEN kind = 4 THEN rp[i] ELSE 0 END) OR ra2 IS DISTINCT FROM memo);
      END IF;
      states := states || answer;
      -- What was carried over to another limit is kept even where refused.
      dirty[i*2-1] := d1 OR anew[i] AND n <> 0;
      dirty[i*2] := d2 OR anew[i] AND n <> 0;
      ct[i] := t1; cn[i] := n1 - fence; cp[i] := p1; ca[i] := ra1;
      wt[i] := t2; wn[i] := n2; wp[i] := p2; wa[i] := ra2;
    END LOOP;

    IF again THEN
      ok := NULL;
      RETURN;
    END IF;
    IF NOT ok THEN
      wt := ct; wn := cn; wp := cp; wa := ca;
    END IF;
    again := false;
    FOR i IN 1..m LOOP
      IF dirty[i*2-1] AND NOT ok OR dirty[i*2] AND ok THEN
        IF NOT locked THEN
          again := true;
          EXIT;
        END IF;
        IF a[(i-1)*24+1] = 6 THEN
          per := a[(i-1)*24+6]; g := coalesce(wa[i], '0')::bigint; wa[i] := NULL;
        ELSE
          g := 0;
        END IF;
        IF g <> 0 THEN
          IF wp[i] = 0 THEN
            wp[i] := nextval('"throttle_id"');
          END IF;
          SELECT v.instant, v.upto INTO r FROM "throttle_log" v WHERE v.id = wp[i] ORDER BY v.instant DESC LIMIT 1;
          IF g > 0 THEN
            INSERT INTO "throttle_log" AS v (id, instant, upto, before, until)
            VALUES (wp[i], greatest(at, r.instant), coalesce(r.upto, 0) + g, coalesce(r.upto, 0), greatest(at, r.instant) + per)
            ON CONFLICT (id, instant) DO UPDATE SET upto = excluded.upto;
            added := added + 1;
          ELSE
            DELETE FROM "throttle_log" v WHERE v.id = wp[i] AND v.upto > r.upto + g AND v.before >= r.upto + g;
            UPDATE "throttle_log" v SET upto = r.upto + g WHERE v.id = wp[i] AND v.upto > r.upto + g;
          END IF;
        END IF;
        IF a[(i-1)*24+1] <= 3 THEN
          wp[i] := at;
        END IF;
        UPDATE "throttle" s SET t = wt[i], n = wn[i], p = wp[i], l = lims[i], a = wa[i]::bigint[] WHERE s.key = keys[i];
      END IF;
    END LOOP;
    EXIT WHEN NOT again;
    locked := true;
  END LOOP;
END
$take$;
