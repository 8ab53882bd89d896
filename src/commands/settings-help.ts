/** The settings that all commands read. */
export const SETTINGS_HELP = `Settings come from the environment, or from lookout.config.yaml in the working directory (LOOKOUT_CONFIG names another),
where they are written small and without LOOKOUT_ (port: 8080, rate_limits: { chat: 600 }):
  LOOKOUT_HOST           address to listen on (127.0.0.1)
  LOOKOUT_PORT           port to listen on, 0 for any (8080)
  LOOKOUT_API_KEY        a key of organisation 'default', beside those in the database (none)
  LOOKOUT_DATA_DIR       where the server keeps its data (the platform's place for application data)
  LOOKOUT_CACHE_DIR      where set-up keeps what it compiles, and the server an empty database; set-up reads it from the
                         environment only (the platform's place for caches)
  LOOKOUT_MODEL_CARD     card of the first model to serve (the one that is shipped)
  LOOKOUT_MODELS         further cards, or folders of such, parted by commas (none)
  LOOKOUT_QUEUE_LENGTH   requests that may wait for each model before further ones are answered 503 (128)
  LOOKOUT_MODEL_MEMORY   GiB that loaded models may take together, by estimate (no limit)
  LOOKOUT_MEDIA_HOSTS    private hosts that pictures may be fetched from, parted by commas (none)
  LOOKOUT_BODY_MEMORY    MiB that large request bodies may take together (1/200 of the memory, 64 to 512)
  LOOKOUT_RATE_LIMITS    on, off, or what differs: chat=600,models=60 (on)
  LOOKOUT_CORS_ORIGINS   origins whose pages may call from a browser, parted by commas, or * (none)
  LOOKOUT_BLOBS          where uploaded files are: a folder, or s3://bucket/prefix?endpoint=https://...&region=... (the
                         data directory)
  DATABASE_URL           postgres://... (an embedded database in the data directory)
  REDIS_URL              redis://..., to share rate limits between servers (none: each counts for itself)
  LOOKOUT_COMPATIBILITY  contract, or openai to also take forced tool calls and json_object (contract)
  LOOKOUT_LOG_LEVEL      fatal, error, warn, info, debug, trace or silent (info)
  LOOKOUT_DRAIN_SECONDS  time that accepted requests get to end after SIGTERM (30)
  LOOKOUT_METRICS_PORT   port of Prometheus' /metrics, 0 for any (none: not served)
  LOOKOUT_METRICS_HOST   address that it is served at (127.0.0.1)
`
