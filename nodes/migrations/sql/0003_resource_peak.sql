-- C12: the most that bookings claim of one resource of one node at any instant of a span.
-- Every booking is two edges, +amount where it begins and -amount where it ends; the running sum
-- over them is the level, and ends sort before beginnings at the same instant because ranges are
-- half-open. STABLE: it reads with the snapshot of the statement that calls it, so call it in a
-- statement after the one that locked the row.
CREATE FUNCTION resource_peak(peak_node_id text, peak_resource text, span tstzrange)
RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(levels.level), 0)::bigint
    FROM (
        SELECT sum(edges.change) OVER (ORDER BY edges.at, edges.change) AS level
        FROM resource_bookings
        CROSS JOIN LATERAL (
            VALUES
                (greatest(lower(during), lower(span)), amount),
                (upper(during), -amount)
        ) AS edges (at, change)
        WHERE node_id = peak_node_id AND resource = peak_resource AND during && span
    ) AS levels
$$;
