alter table usage add column pages integer not null default 0;
