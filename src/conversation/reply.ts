import { internalError } from '../errors.ts'
import type { Engine, EngineEvent, Generation, PromptPart } from '../inference/engine.ts'
import type { ServedModel } from '../models/registry.ts'
import type { Deadline } from './deadline.ts'

/** A model's answer as it comes: texts, then one finish. */
export type ReplyEvent = ReplyText | ReplyFinish

export interface ReplyText {
  readonly type: 'text'
  /** Never empty. */
  readonly text: string
}

export interface ReplyFinish {
  readonly type: 'finish'
  readonly reason: 'stop' | 'length'
  readonly usage: Usage
}

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Null for a model that hears nothing. */
  readonly audioTokens: number | null
}

export interface WholeReply {
  readonly text: string
  readonly finish: ReplyFinish
}

export interface ReplySource {
  readonly generation: Generation
  readonly model: ServedModel
  readonly deadline: Deadline
}

/**
 * Assembles the reply of a work with one branch and one completion. A reply whose time is over ends as one that ran out
 * of tokens: what is there is given, with reason `length`.
 * @throws ApiError when the engine fails, and 504 when the time is over before the first text.
 */
export async function* assembleReply(source: ReplySource): AsyncGenerator<ReplyEvent, void, void> {
  const { generation, model, deadline } = source
  let text = ''
  try {
    for await (const event of generation.events) {
      if (event.type === 'text') text += event.text
      yield toReplyEvent(event, generation, model)
      if (event.type === 'finish') return
    }
    throw internalError(new Error('The engine ended a completion without a finish'))
  } catch (error) {
    if (!deadline.caused(error) || text === '') throw error
    const completionTokens = await countText(model.engine, text)
    yield { type: 'finish', reason: 'length', usage: usageOf(generation, model, completionTokens) }
  } finally {
    deadline.release()
  }
}

/** The same reply in one piece. */
export async function collectReply(events: AsyncIterable<ReplyEvent>): Promise<WholeReply> {
  const texts: string[] = []
  for await (const event of events) {
    if (event.type === 'finish') return { text: texts.join(''), finish: event }
    texts.push(event.text)
  }
  throw internalError(new Error('A reply ended without a finish'))
}

function toReplyEvent(event: EngineEvent, generation: Generation, model: ServedModel): ReplyEvent {
  switch (event.type) {
    case 'text':
      return { type: 'text', text: event.text }
    case 'finish':
      return { type: 'finish', reason: event.reason, usage: usageOf(generation, model, event.completionTokens) }
    case 'error':
      throw event.error
  }
}

function usageOf(generation: Generation, model: ServedModel, completionTokens: number): Usage {
  const prompt = generation.prompts[0]
  if (!prompt) throw internalError(new Error('The engine admitted a work without its prompt usage'))
  const audioTokens = model.served.modalities.includes('audio') ? prompt.audioTokens : null
  return { promptTokens: prompt.promptTokens, completionTokens, audioTokens }
}

function countText(engine: Engine, text: string): Promise<number> {
  const parts: PromptPart[] = [{ type: 'text', text, trusted: false }]
  return engine.countTokens(parts)
}
