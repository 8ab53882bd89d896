create table organisations (
  id text primary key,
  created_at timestamptz not null default now(),
  limits jsonb not null default '{}',
  stored_bytes bigint not null default 0,
  revoked_at timestamptz
);

create table api_keys (
  id text primary key,
  organisation_id text not null references organisations,
  name text not null,
  prefix text not null,
  hash text not null unique,
  scopes text[] not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index api_keys_by_organisation on api_keys (organisation_id);

create table files (
  organisation_id text not null references organisations,
  id text collate "C" not null,
  bytes bigint not null,
  created_at timestamptz not null,
  filename text not null,
  purpose text not null,
  content_type text not null,
  primary key (organisation_id, id)
);
create index files_by_purpose on files (organisation_id, purpose, id);

create table uploads (
  organisation_id text not null references organisations,
  minute timestamptz not null,
  bytes bigint not null,
  primary key (organisation_id, minute)
);

-- No references here: a row is written after its request, and must not fail because something else is gone.
create table usage (
  trace_id text primary key,
  at timestamptz not null,
  organisation_id text not null,
  key_id text not null,
  model text not null,
  endpoint text not null,
  status integer not null,
  finish text not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cached_tokens bigint not null,
  audio_tokens bigint not null,
  latency_ms integer not null,
  credits numeric(20, 6) not null
);
create index usage_by_time on usage (organisation_id, at);

create table spending (
  organisation_id text not null,
  month date not null,
  credits numeric(20, 6) not null,
  primary key (organisation_id, month)
);
