/** OpenTelemetry's own variables, `OTEL_*`, as they are set. */
export type TracingVariables = Readonly<Record<string, string>>

/** Null if tracing is off: no endpoint is set and the exporter is not named, or a variable disables traces. */
export function readTracing(environment: NodeJS.ProcessEnv): TracingVariables | null {
  const set = Object.entries(environment).filter(
    (entry): entry is [string, string] => entry[0].startsWith('OTEL_') && entry[1] !== undefined && entry[1] !== '',
  )
  const variables: TracingVariables = Object.fromEntries(set)
  if (variables.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return null
  const { OTEL_TRACES_EXPORTER: exporter } = variables
  if (exporter === 'none') return null
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: own, OTEL_EXPORTER_OTLP_ENDPOINT: shared } = variables
  return own !== undefined || shared !== undefined || exporter !== undefined ? variables : null
}
