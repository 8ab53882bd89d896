import { parseKeyPairsIntoRecord } from '@opentelemetry/core'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace'
import type { TracingVariables } from '../config/tracing.ts'

const DEFAULT_ENDPOINT = 'http://localhost:4318'
const PROTOCOL = 'http/protobuf'

/**
 * Where spans are sent. The exporter itself reads the time limit, compression and certificates from the environment.
 * @throws Error that says what is not supported.
 */
export function readExporter(variables: TracingVariables) {
  const own = (name: string) =>
    variables[`OTEL_EXPORTER_OTLP_TRACES_${name}`] ?? variables[`OTEL_EXPORTER_OTLP_${name}`]
  const exporter = variables.OTEL_TRACES_EXPORTER ?? 'otlp'
  if (exporter !== 'otlp') throw new Error(`OTEL_TRACES_EXPORTER is ${exporter}; expected otlp or none`)
  const protocol = own('PROTOCOL') ?? PROTOCOL
  if (protocol !== PROTOCOL) {
    throw new Error(
      `OTEL_EXPORTER_OTLP_PROTOCOL is ${protocol}; expected ${PROTOCOL}, which collectors take on port 4318`,
    )
  }
  const pairs = (name: string) => parseKeyPairsIntoRecord(variables[name])
  return {
    url: endpointOf(variables),
    headers: { ...pairs('OTEL_EXPORTER_OTLP_HEADERS'), ...pairs('OTEL_EXPORTER_OTLP_TRACES_HEADERS') },
  }
}

/** How spans are batched; OpenTelemetry's defaults if not set. */
export function readBatches(variables: TracingVariables) {
  return {
    scheduledDelayMillis: numberOf(variables.OTEL_BSP_SCHEDULE_DELAY),
    exportTimeoutMillis: numberOf(variables.OTEL_BSP_EXPORT_TIMEOUT),
    maxQueueSize: numberOf(variables.OTEL_BSP_MAX_QUEUE_SIZE),
    maxExportBatchSize: numberOf(variables.OTEL_BSP_MAX_EXPORT_BATCH_SIZE),
  }
}

/** The operator's description of this server, which overrides its own. */
export function readResource(variables: TracingVariables): Readonly<Record<string, string>> {
  const name = variables.OTEL_SERVICE_NAME
  return {
    ...parseKeyPairsIntoRecord(variables.OTEL_RESOURCE_ATTRIBUTES),
    ...(name === undefined ? {} : { 'service.name': name }),
  }
}

/** @throws Error that says what is not supported. */
export function readSampler({
  OTEL_TRACES_SAMPLER: name = 'parentbased_always_on',
  OTEL_TRACES_SAMPLER_ARG: share,
}: TracingVariables): Sampler {
  const root = ROOTS[name.replace('parentbased_', '')]
  if (root === undefined) throw new Error(`OTEL_TRACES_SAMPLER is ${name}, which is not a known sampler`)
  const sampler = root(share)
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root: sampler }) : sampler
}

const ROOTS: Readonly<Record<string, (share: string | undefined) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (given = '1') => {
    const share = Number(given)
    if (share >= 0 && share <= 1) return new TraceIdRatioBasedSampler(share)
    throw new Error(`OTEL_TRACES_SAMPLER_ARG is ${given}; expected a number from 0 to 1`)
  },
}

function endpointOf(variables: TracingVariables): string {
  const own = variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  const shared = variables.OTEL_EXPORTER_OTLP_ENDPOINT ?? DEFAULT_ENDPOINT
  const url = own ?? `${shared.replace(/\/$/, '')}/v1/traces`
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return url
  const name = own === undefined ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'
  throw new Error(`${name} is not an http(s) URL`)
}

/** An invalid number counts as not set. */
function numberOf(given: string | undefined): number | undefined {
  const number = Number(given ?? Number.NaN)
  return number > 0 ? number : undefined
}
