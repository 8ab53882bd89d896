-- SHA-256 of a file that responses share, in hexadecimal; null for an upload. Such a file is in no list, and goes with the
-- last response that it is part of.
alter table files add column hash text;
create unique index files_by_hash on files (organisation_id, hash) where hash is not null;

create table responses (
  organisation_id text not null references organisations,
  id text collate "C" not null,
  previous_id text collate "C",
  depth integer not null,
  bytes bigint not null,
  chain_bytes bigint not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  input text not null,
  body text not null,
  primary key (organisation_id, id)
);
create index responses_by_expiry on responses (expires_at);

create table response_files (
  organisation_id text not null,
  response_id text collate "C" not null,
  file_id text collate "C" not null,
  primary key (organisation_id, response_id, file_id),
  foreign key (organisation_id, response_id) references responses on delete cascade,
  foreign key (organisation_id, file_id) references files
);
create index response_files_by_file on response_files (organisation_id, file_id);
