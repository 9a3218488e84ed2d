-- What the first occurrence of each series says of who asked for it; its others say it too.
UPDATE reservation_series
SET agent = first.agent, confirmation_id = first.confirmation_id
FROM reservations AS first
WHERE
    first.series_id = reservation_series.id
    AND first.agent <> ''
    AND first.request ? 'recurrence';

UPDATE reservations
SET agent = reservation_series.agent, confirmation_id = reservation_series.confirmation_id
FROM reservation_series
WHERE
    reservation_series.id = reservations.series_id
    AND reservation_series.agent <> ''
    AND reservations.agent = '';
