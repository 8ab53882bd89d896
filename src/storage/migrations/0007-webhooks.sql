alter table watches add column deleted_at timestamptz;
alter table watches add column fed_until timestamptz;

create table watch_webhooks (
  watch_id text collate "C" primary key references watches on delete cascade,
  url text not null,
  types text[] not null,
  secret text not null,
  ended_at timestamptz,
  error text,
  lease text,
  leased_until timestamptz
);

create table watch_deliveries (
  watch_id text collate "C" not null,
  seq bigint not null,
  tries integer not null default 0,
  next_at timestamptz not null default now(),
  primary key (watch_id, seq),
  foreign key (watch_id, seq) references watch_events on delete cascade
);
create index watch_deliveries_by_time on watch_deliveries (next_at);

-- Keys that were made with all scopes but `admin`, before there was `watch`.
update api_keys set scopes = array_append(scopes, 'watch') where scopes @> '{inference,files}' and not scopes && '{watch,admin}';
