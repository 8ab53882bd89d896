-- `start` and `length` are the place of a line's request now, and no longer that of the whole line. Batches that run are
-- validated again, which finds these places; those that end keep what they have.
alter table batch_lines add column streams boolean not null default false;
delete from batch_lines where batch_id in (select id from batches where status in ('validating', 'in_progress'));
update batches set status = 'validating', in_progress_at = null, total = 0, completed = 0, failed = 0,
  lease = null, leased_until = null where status in ('validating', 'in_progress');
