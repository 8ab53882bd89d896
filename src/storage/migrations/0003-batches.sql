alter table files add column expires_at timestamptz;
create index files_by_expiry on files (expires_at) where expires_at is not null;

create table batches (
  organisation_id text not null references organisations,
  id text collate "C" primary key,
  key_id text not null,
  endpoint text not null,
  input_file_id text not null,
  completion_window text not null,
  metadata jsonb,
  output_seconds integer,
  status text not null,
  ending text,
  problems jsonb,
  output_file_id text,
  error_file_id text,
  total integer not null default 0,
  completed integer not null default 0,
  failed integer not null default 0,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  in_progress_at timestamptz,
  finalizing_at timestamptz,
  completed_at timestamptz,
  failed_at timestamptz,
  expired_at timestamptz,
  cancelling_at timestamptz,
  cancelled_at timestamptz,
  lease text,
  leased_until timestamptz,
  cleared boolean not null default false
);
create index batches_by_organisation on batches (organisation_id, id);
create index batches_at_work on batches (id) where not cleared;

create table batch_lines (
  batch_id text collate "C" not null references batches,
  position integer not null,
  custom_id text not null,
  start bigint not null,
  length integer not null,
  lease text,
  leased_until timestamptz,
  tries integer not null default 0,
  result text,
  failed boolean not null default false,
  primary key (batch_id, position)
);
create index batch_lines_to_run on batch_lines (batch_id, position) where result is null;
create index batch_lines_by_lease on batch_lines (lease) where lease is not null;
