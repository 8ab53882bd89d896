alter table watch_events add column clip text;
create index watch_events_by_pending_clip on watch_events (watch_id) where clip = 'pending';
