create table secrets (
  name text primary key,
  secret text not null
);
