create table watches (
  organisation_id text not null references organisations,
  id text collate "C" primary key,
  key_id text not null,
  settings text not null,
  version integer not null default 1,
  paused boolean not null default false,
  created_at timestamptz not null,
  seq bigint not null default 0,
  memory text,
  seen_at timestamptz,
  lease text,
  leased_until timestamptz
);
create index watches_by_organisation on watches (organisation_id, id);

create table watch_events (
  watch_id text collate "C" not null references watches on delete cascade,
  seq bigint not null,
  id text not null unique,
  body text not null,
  file_id text,
  expires_at timestamptz not null,
  primary key (watch_id, seq)
);
create index watch_events_by_expiry on watch_events (expires_at);
