import { type Attributes, type Span, SpanKind } from '@opentelemetry/api'
import { ATTR_HTTP_REQUEST_METHOD, ATTR_SERVER_ADDRESS, ATTR_SERVER_PORT } from '@opentelemetry/semantic-conventions'
import type { BranchErrorEvent, FinishEvent, PromptUsage } from '../inference/contract/generation.ts'
import type { WorkSize, WorkTrace } from '../inference/contract/work-trace.ts'
import type { TracedStage } from '../lib/traced-stage.ts'
import { GEN_AI, LOOKOUT } from './attributes.ts'
import { endSpan, type SpanParent } from './span-parent.ts'

type Stage = 'engine.queue' | 'engine.prefill' | 'engine.decode'

/** The spans of one work, which passes through its stages one after another. */
export class WorkSpans implements WorkTrace {
  readonly #parent: SpanParent
  readonly #counts: Attributes
  readonly #reasons: string[] = []
  #stage: Stage = 'engine.queue'
  #span: Span
  /** Attributes of the prompts, once they are known. */
  #prompts: Attributes = {}
  /** The encoder's part of the prompt's stage; null before it begins. */
  #encoding: { readonly span: Span; count: number; ms: number; end: number } | null = null
  #failedBranches = 0
  #hasEnded = false

  constructor(parent: SpanParent, { branches, completions }: WorkSize) {
    this.#parent = parent
    this.#counts = { [LOOKOUT.branches]: branches, [LOOKOUT.completions]: completions }
    this.#span = parent.begin(this.#stage, { attributes: this.#counts })
  }

  admitted(prompts: readonly PromptUsage[]): void {
    const sum = (count: (prompt: PromptUsage) => number) => prompts.reduce((total, prompt) => total + count(prompt), 0)
    this.#prompts = {
      [GEN_AI.inputTokens]: sum(({ promptTokens }) => promptTokens),
      [GEN_AI.cachedTokens]: sum(({ cachedTokens }) => cachedTokens),
      [LOOKOUT.imageTokens]: sum(({ imageTokens }) => imageTokens),
      [LOOKOUT.audioTokens]: sum(({ audioTokens }) => audioTokens),
    }
    if (this.#stage === 'engine.prefill') this.#span.setAttributes(this.#prompts)
  }

  started(): void {
    if (this.#stage === 'engine.queue') this.#enter('engine.prefill', { ...this.#counts, ...this.#prompts })
  }

  encoded(ms: number): void {
    if (this.#stage !== 'engine.prefill' || this.#hasEnded) return
    const end = Date.now()
    this.#encoding ??= {
      span: this.#parent.below(this.#span).begin('engine.encode', { startTime: end - ms }),
      count: 0,
      ms: 0,
      end,
    }
    this.#encoding.count++
    this.#encoding.ms += ms
    this.#encoding.end = end
  }

  asked(url: string): TracedStage {
    const { hostname, port, protocol } = new URL(url)
    return this.#parent.beginStage('POST', {
      kind: SpanKind.CLIENT,
      attributes: {
        [ATTR_HTTP_REQUEST_METHOD]: 'POST',
        [ATTR_SERVER_ADDRESS]: hostname,
        [ATTR_SERVER_PORT]: Number(port) || (protocol === 'https:' ? 443 : 80),
      },
    })
  }

  spoke(): void {
    if (this.#stage !== 'engine.decode') this.#enter('engine.decode', this.#counts)
  }

  settled(event: FinishEvent | Pick<BranchErrorEvent, 'type'>): void {
    if (event.type === 'finish') this.#reasons.push(event.reason)
    else this.#failedBranches++
  }

  ended(tokens: number, error?: unknown): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#span.setAttributes({ [GEN_AI.outputTokens]: tokens, [GEN_AI.finishReasons]: this.#reasons })
    if (this.#failedBranches > 0) this.#span.setAttribute(LOOKOUT.failedBranches, this.#failedBranches)
    this.#endEncoding()
    endSpan(this.#span, error)
  }

  #enter(stage: Stage, attributes: Attributes): void {
    if (this.#hasEnded) return
    this.#endEncoding()
    this.#span.end()
    this.#stage = stage
    this.#span = this.#parent.begin(stage, { attributes })
  }

  #endEncoding(): void {
    if (this.#encoding === null) return
    const { span, count, ms, end } = this.#encoding
    this.#encoding = null
    span.setAttributes({ [LOOKOUT.encodedMedia]: count, [LOOKOUT.encodeMs]: Math.round(ms) })
    span.end(end)
  }
}
