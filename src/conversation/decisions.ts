import type { ServedModel } from '../inference/catalog/registry.ts'
import type { PromptUsage } from '../inference/contract/generation.ts'
import { GREEDY } from '../inference/contract/greedy.ts'
import type { Branch, ReadQuestion } from '../inference/contract/work.ts'
import { internalError } from '../lib/errors.ts'
import { nameOf, type Path, within } from '../lib/param.ts'
import type { MediaTrace } from '../media/media-trace.ts'
import { checkDecisions } from './capability-checks.ts'
import type { Answer, DecisionReply, DecisionUsage, FoundAnswer } from './decisions/decision-reply.ts'
import { followSearches, PlaceSearch } from './decisions/place-search.ts'
import { distributionOf } from './decisions/probabilities.ts'
import { type ReadableQuestion, type Wording, wordingOf } from './decisions/wording.ts'
import { framesPerVideo, type LoadedMedia, loadMedia, type MediaSource } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt, contentOf, type PromptStyle, type SharedPrompt } from './prompt/prompt.ts'
import {
  AS_MANY_AS_FIT,
  type AskedTokens,
  type CountScope,
  MeasuredPrompt,
  outputBudget,
} from './prompt/token-budget.ts'
import { checkCompletions, sharedBeginning, type View, viewsOf } from './prompt/views.ts'
import { dialectOf, nothingIn, sceneOf, tagsConstraint } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'
import type { Content, DecisionRequest, FindKind, FindQuestion, Question } from './request/decision-request.ts'
import type { PlacedMessage } from './request/message.ts'

export interface DecisionParts {
  readonly model: ServedModel
  readonly organisation: string
  readonly style: PromptStyle
  readonly media: MediaSource
  /** Follows the media of the request; may be left out. */
  readonly trace?: MediaTrace | undefined
  /** Disposed of when the media has been decoded. */
  readonly held: DisposableStack
}

const FIND_KINDS = ['box', 'point', 'clip'] as const
/** A reply that is read takes room behind its prompt. */
const ROOM_TO_READ: AskedTokens = { ...AS_MANY_AS_FIT, maxTokens: 1 }

/**
 * Answers all questions about one input, which is computed once. An engine that fails at one question fails that alone.
 * @throws ApiError when the request is invalid, when the engine fails, or fails at every question.
 */
export async function decide(
  request: DecisionRequest,
  { model, organisation, style, media: source, trace, held }: DecisionParts,
  deadline: Deadline,
): Promise<DecisionReply> {
  const { signal } = deadline
  const readable = request.questions.map((question, index) => {
    return isFind(question) ? null : { question, index, ...worded(question, wordingOf(question, model.card.decision)) }
  })
  const asked = readable.filter((reading) => reading !== null)
  const questions = asked.map(({ placed }) => placed)
  checkDecisions(request, questions, model)
  const messages = [...request.input, ...questions]
  const media = await loadMedia(messages, {
    model,
    media: held.use(source.open(organisation, signal, trace)),
    withSound: false,
    maxFrames: framesPerVideo(messages),
    signal,
  })
  held.dispose()
  const desk = new Desk({ request, media, model, organisation, style, signal })
  const answers: Answer[] = []
  const found = FIND_KINDS.flatMap((kind) => {
    const questions = request.questions.flatMap((question, index) =>
      question.type === kind ? [{ question, index }] : [],
    )
    return questions.length === 0 ? [] : [desk.find(kind, questions, answers)]
  })
  const usages = await Promise.all([...(asked.length === 0 ? [] : [desk.read(asked, answers)]), ...found])
  const failed = answers.filter((answer) => answer.type === 'none' && answer.error !== null)
  if (failed.length === answers.length) throw (failed[0] as Extract<Answer, { type: 'none' }>).error
  return { answers, usage: total(usages) }
}

function isFind(question: Question): question is FindQuestion {
  return question.type === 'box' || question.type === 'point' || question.type === 'clip'
}

interface Reading {
  readonly question: ReadableQuestion
  readonly index: number
  readonly placed: PlacedMessage
  readonly replies: Wording['replies']
}

function worded({ param }: ReadableQuestion, { content, replies }: Wording): Pick<Reading, 'placed' | 'replies'> {
  return { placed: userTurn(content, param), replies }
}

function userTurn(content: Content, param: Path): PlacedMessage {
  return {
    message: { role: 'user', content: content.map(({ part }) => part) },
    param,
    places: content.map((part) => part.param),
  }
}

interface DeskParts extends Pick<DecisionParts, 'model' | 'organisation' | 'style'> {
  readonly request: DecisionRequest
  readonly media: LoadedMedia
  readonly signal: AbortSignal
}

/** Has the engine answer the questions of one request. */
class Desk {
  readonly #parts: DeskParts
  readonly #scope: CountScope

  constructor(parts: DeskParts) {
    const { model, organisation, signal } = parts
    this.#parts = parts
    this.#scope = { model, organisation, signal }
  }

  /** Puts the answers to the questions in their places. */
  async read(readings: readonly Reading[], answers: Answer[]): Promise<DecisionUsage> {
    const { model, organisation, media, signal, request } = this.#parts
    const shared = await this.#sharedPrompt(request.input, null)
    const prefix = new MeasuredPrompt(shared.prefix, this.#scope)
    const questions: ReadQuestion[] = []
    for (const { placed, replies, question } of readings) {
      const suffix = shared.suffix(contentOf(placed, media))
      await outputBudget([prefix, new MeasuredPrompt(suffix, this.#scope)], ROOM_TO_READ, model, question.param)
      questions.push({ param: nameOf(question.param)!, suffix, replies: replies.flat() })
    }
    signal.throwIfAborted()
    const reading = await model.engine.read!({ organisation, prefix: shared.prefix, questions }, signal)
    const missing = new Set(readings)
    for await (const answer of reading.answers) {
      const read = readings[answer.question]!
      missing.delete(read)
      answers[read.index] =
        'error' in answer ? { type: 'none', error: answer.error } : this.#answer(read, answer.logProbs)
    }
    if (missing.size > 0) throw internalError(new Error('The engine left out an answer'))
    return usageOf(reading.prompts, await prefix.countTokens(), 0)
  }

  #answer({ question, replies }: Reading, logProbs: readonly number[]): Answer {
    const { request, model } = this.#parts
    const kind = question.type === 'count' ? 'score' : question.type
    const temperature = request.calibrated ? model.card.decision.temperature[kind] : 1
    let from = 0
    const options = replies.map((meaning) => {
      const start = from
      from += meaning.length
      return logProbs.slice(start, from)
    })
    const distribution = distributionOf(options, temperature)
    return distribution === null ? { type: 'none', error: null } : { type: 'read', distribution }
  }

  /** Looks for one thing for each question, in one picture after the other. The surest place is the answer. */
  async find(
    kind: FindKind,
    questions: readonly { readonly question: FindQuestion; readonly index: number }[],
    answers: Answer[],
  ): Promise<DecisionUsage> {
    const { model, organisation, request, media, signal } = this.#parts
    const dialect = dialectOf(model.card)
    const nothing = nothingIn(dialect, sceneOf(request.input, media))
    const views = viewsOf(request.input, kind, { namesAssets: false, nothing })
    if (views.length > 1)
      checkCompletions(views.length * questions.length, within(questions[0]!.question.param, 'type'))
    const instruction = kind === 'clip' ? dialect.instruction(kind) : dialect.detection.instruction(kind)
    const shown: SharedPrompt[] = []
    for (const { messages } of views) shown.push(await this.#sharedPrompt(messages, instruction))
    const shared = sharedBeginning(shown.map(({ prefix }) => prefix))
    const prefix = new MeasuredPrompt(shared, this.#scope)
    const searches: PlaceSearch[] = []
    for (const { question } of questions) {
      for (const [i, view] of views.entries()) {
        const own = { prefix: shown[i]!.prefix.slice(shared.length), suffix: shown[i]!.suffix }
        searches.push(await this.#search(question, view, own, prefix))
      }
    }
    signal.throwIfAborted()
    const branches = searches.map(({ branch }) => branch)
    const generation = await model.engine.generate({ organisation, prefix: shared, branches, whole: true }, signal)
    await followSearches(searches, generation)
    for (const [i, { index }] of questions.entries()) {
      const own = searches.slice(i * views.length, (i + 1) * views.length)
      answers[index] = surest(own.map(({ answer }) => answer))
    }
    return usageOf(generation.prompts, await prefix.countTokens(), generation.computedTokens())
  }

  /** @param own what the view's prompt has behind what all share. */
  async #search(question: FindQuestion, view: View, own: SharedPrompt, prefix: MeasuredPrompt): Promise<PlaceSearch> {
    const { model, media } = this.#parts
    const { param: path, type: kind, instructions } = question
    const param = nameOf(path)!
    const dialect = dialectOf(model.card)
    const scene = sceneOf(view.messages, media, view)
    const asked = kind === 'clip' ? instructions : dialect.detection.question(kind, [instructions])
    const suffix = [...own.prefix, ...own.suffix(untrusted(asked))]
    const measured = [prefix, new MeasuredPrompt(suffix, this.#scope)]
    const maxTokens = await outputBudget(measured, AS_MANY_AS_FIT, model, path)
    const bound =
      kind === 'clip'
        ? { ...tagsConstraint('clip', dialect, scene), param }
        : {
            type: 'regex' as const,
            pattern: dialect.detection.pattern(kind, [instructions], scene),
            param,
            advisory: true,
          }
    const spec = new ReplySpec({ bound, ...PLAIN_REPLY }, model)
    const branch: Branch = { param, suffix, n: 1, sampling: GREEDY, topLogProbs: 0, ...spec.bounds(maxTokens) }
    const reading = { reply: spec.createReader(), reader: dialect.reader(scene), assets: view.assets }
    return new PlaceSearch({ question, branch, ...reading })
  }

  /** What all questions begin with. The last turn, if it is the user's, is the one that they continue. */
  async #sharedPrompt(input: readonly PlacedMessage[], instruction: string | null): Promise<SharedPrompt> {
    const { media, style } = this.#parts
    const last = input.at(-1)
    const continues = last?.message.role === 'user'
    const opening = continues ? contentOf(last, media) : []
    const source = {
      param: 'input',
      messages: continues ? input.slice(0, -1) : input,
      media,
      instruction,
      demand: null,
      tools: [],
      thinking: false,
      replaysReasoning: false,
    }
    const { prefix, suffix } = await buildSharedPrompt(source, style, opening)
    // A question behind a text begins a paragraph of its own.
    const gap = opening.at(-1)?.type === 'text' ? untrusted('\n\n') : []
    return { prefix, suffix: (question) => suffix([...gap, ...question]) }
  }
}

/** Of the answers from several pictures: the surest place, or that there is none in any of them. */
function surest(answers: readonly Answer[]): Answer {
  const found = answers.filter((answer) => answer.type === 'found')
  const places = found.filter(({ place }) => place !== null)
  if (places.length > 0) return places.reduce((best, one) => (sureness(one) > sureness(best) ? one : best))
  const failed = answers.find((answer) => answer.type === 'none')
  return failed ?? found.reduce((least, one) => (sureness(one) < sureness(least) ? one : least))
}

function sureness({ confidence }: FoundAnswer): number {
  return confidence ?? 0
}

const PLAIN_REPLY = {
  tools: [],
  toolUse: { choice: 'none', parallel: false },
  thoughtBudget: null,
  grounding: null,
} as const

function usageOf(prompts: readonly PromptUsage[], sharedTokens: number, completionTokens: number): DecisionUsage {
  return {
    promptTokens: sum(prompts.map(({ promptTokens }) => promptTokens)),
    // Computed from this request alone: what the engine cached for earlier requests does not count.
    cachedTokens: sum(prompts.slice(1).map(({ cachedTokens }) => Math.min(sharedTokens, cachedTokens))),
    completionTokens,
  }
}

function total(usages: readonly DecisionUsage[]): DecisionUsage {
  return {
    promptTokens: sum(usages.map(({ promptTokens }) => promptTokens)),
    cachedTokens: sum(usages.map(({ cachedTokens }) => cachedTokens)),
    completionTokens: sum(usages.map(({ completionTokens }) => completionTokens)),
  }
}

function sum(counts: readonly number[]): number {
  return counts.reduce((whole, count) => whole + count, 0)
}
