import { type ExportResult, ExportResultCode } from '@opentelemetry/core'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'

export interface ExportLogger {
  info(message: string): void
  warn(message: string): void
}

/** Logs when spans begin to get lost, and when they arrive again. */
export class WatchedExporter implements SpanExporter {
  readonly #exporter: SpanExporter
  readonly #logger: ExportLogger
  readonly #host: string
  #isFailing = false

  /** @param url where spans are sent; it may contain a key, so only its host is logged. */
  constructor(exporter: SpanExporter, url: string, logger: ExportLogger) {
    this.#exporter = exporter
    this.#host = new URL(url).host
    this.#logger = logger
  }

  export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    this.#exporter.export(spans, (result) => {
      const hasFailed = result.code === ExportResultCode.FAILED
      if (hasFailed && !this.#isFailing) {
        this.#logger.warn(`Traces cannot be sent to ${this.#host} and are lost: ${result.error?.message ?? 'unknown'}`)
      }
      if (!hasFailed && this.#isFailing) this.#logger.info(`Traces are sent to ${this.#host} again`)
      this.#isFailing = hasFailed
      // The caller would report a failure again, for every batch.
      done({ code: ExportResultCode.SUCCESS })
    })
  }

  async forceFlush(): Promise<void> {
    await this.#exporter.forceFlush?.()
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown()
  }
}
