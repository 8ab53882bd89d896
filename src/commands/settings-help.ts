/** The settings that all commands read. */
export const SETTINGS_HELP = `Settings come from the environment:
  LOOKOUT_HOST           address to listen on (127.0.0.1)
  LOOKOUT_PORT           port to listen on, 0 for any (8080)
  LOOKOUT_API_KEY        a key of organisation 'default', beside those in the database (none)
  LOOKOUT_DATA_DIR       where the server keeps its data (the platform's place for application data)
  LOOKOUT_MODEL_CARD     card of the first model to serve (the one that is shipped)
  LOOKOUT_MODELS         further cards, or folders of such, parted by commas (none)
  LOOKOUT_MODEL_MEMORY   GiB that loaded models may take together, by estimate (no limit)
  LOOKOUT_MEDIA_HOSTS    private hosts that pictures may be fetched from, parted by commas (none)
  LOOKOUT_RATE_LIMITS    on, off, or what differs: chat=600,models=60 (on)
  LOOKOUT_BLOBS          where uploaded files are: a folder, or s3://bucket/prefix?endpoint=https://...&region=... (the
                         data directory)
  DATABASE_URL           postgres://... (an embedded database in the data directory)
  REDIS_URL              redis://..., to share rate limits between servers (none: each counts for itself)
  LOOKOUT_LOG_LEVEL      fatal, error, warn, info, debug, trace or silent (info)
  LOOKOUT_DRAIN_SECONDS  time that accepted requests get to end after SIGTERM (30)
  LOOKOUT_METRICS_PORT   port of Prometheus' /metrics, 0 for any (none: not served)
  LOOKOUT_METRICS_HOST   address that it is served at (127.0.0.1)
`
