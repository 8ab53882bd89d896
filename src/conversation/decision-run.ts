import type { ReadQuestion } from '../inference/contract/work.ts'
import { internalError } from '../lib/errors/errors.ts'
import { nameOf, within } from '../lib/errors/param.ts'
import { plainName } from '../lib/plain-name.ts'
import { branchOf, type Call } from './call/call.ts'
import type { Answer, DecisionUsage, FoundAnswer } from './decisions/decision-reply.ts'
import { type PlaceRating, PlaceSearch } from './decisions/place-search.ts'
import { distributionOf } from './decisions/probabilities.ts'
import type { ReadableQuestion, Wording } from './decisions/wording.ts'
import { ratePlace } from './detecting/rated-list.ts'
import { ALTERNATIVES } from './detection-ratings.ts'
import type { LoadedMedia } from './prompt/media-parts.ts'
import { untrusted } from './prompt/placeholders.ts'
import { buildSharedPrompt, contentOf, type PromptSource, type SharedPrompt } from './prompt/prompt.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { checkCompletions, sharedBeginning, type View, viewsOf } from './prompt/views.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf, nothingIn, sceneOf, tagsConstraint } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import { sharedPromptUsage } from './reply/usage.ts'
import type { DecisionRequest, FindKind, FindQuestion } from './request/decision-request.ts'
import type { PlacedMessage } from './request/message.ts'

/** Reading a reply takes room for one token after the prompt. */
const ROOM_TO_READ = { ...AS_MANY_AS_FIT, maxTokens: 1 }

/** A question whose answer is read, in the form the model gets. */
export interface Reading {
  readonly question: ReadableQuestion
  /** The index among the request's questions. */
  readonly index: number
  readonly placed: PlacedMessage
  readonly replies: Wording['replies']
}

/** Runs the questions of one request on the engine. */
export class DecisionRun {
  readonly #request: DecisionRequest
  readonly #media: LoadedMedia
  readonly #call: Call

  constructor(request: DecisionRequest, media: LoadedMedia, call: Call) {
    this.#request = request
    this.#media = media
    this.#call = call
  }

  /** @param answers gets the answers, by the indices of the questions. */
  async read(readings: readonly Reading[], answers: Answer[]): Promise<DecisionUsage> {
    const { model, organisation, signal } = this.#call
    const shared = await this.#sharedPrompt(this.#request.input)
    const prefix = new MeasuredPrompt(shared.prefix, this.#call)
    const questions: ReadQuestion[] = []
    for (const { placed, replies, question } of readings) {
      const suffix = shared.suffix(contentOf(placed, this.#media))
      await outputBudget([prefix, new MeasuredPrompt(suffix, this.#call)], ROOM_TO_READ, model, question.param)
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
    return { ...sharedPromptUsage(reading.prompts, await prefix.countTokens()), completionTokens: 0 }
  }

  #answer({ question, replies }: Reading, logProbs: readonly number[]): Answer {
    const kind = question.type === 'count' ? 'score' : question.type
    const temperature = this.#request.calibrated ? this.#call.model.card.decision.temperature[kind] : 1
    let from = 0
    const options = replies.map((meaning) => {
      const start = from
      from += meaning.length
      return logProbs.slice(start, from)
    })
    const distribution = distributionOf(options, temperature)
    return distribution === null ? { type: 'none', error: null } : { type: 'read', distribution }
  }

  /** Looks for one thing per question, in one picture at a time. The most confident place is the answer. */
  async find(
    kind: FindKind,
    questions: readonly { readonly question: FindQuestion; readonly index: number }[],
    answers: Answer[],
  ): Promise<DecisionUsage> {
    const { model, organisation, signal } = this.#call
    const { input } = this.#request
    const dialect = dialectOf(model.card)
    const nothing = nothingIn(dialect, sceneOf(input, this.#media))
    const views = viewsOf(input, kind, { namesAssets: false, nothing })
    if (views.length > 1)
      checkCompletions(views.length * questions.length, within(questions[0]!.question.param, 'type'))
    const instruction = kind === 'clip' ? dialect.instruction(kind) : dialect.detection.instruction(kind)
    const shown: SharedPrompt[] = []
    for (const { messages } of views) shown.push(await this.#sharedPrompt(messages, { instruction, annotated: true }))
    const shared = sharedBeginning(shown.map(({ prefix }) => prefix))
    const prefix = new MeasuredPrompt(shared, this.#call)
    const searches: PlaceSearch[] = []
    for (const { question } of questions) {
      for (const [i, view] of views.entries()) {
        const own = { prefix: shown[i]!.prefix.slice(shared.length), suffix: shown[i]!.suffix }
        searches.push(await this.#search(question, view, own, prefix))
      }
    }
    const branches = searches.map(({ branch }) => branch)
    const generation = await model.engine.generate({ organisation, prefix: shared, branches, whole: true }, signal)
    await followSearches(searches, generation)
    for (const [i, { index }] of questions.entries()) {
      const own = searches.slice(i * views.length, (i + 1) * views.length)
      answers[index] = surest(own.map(({ answer }) => answer))
    }
    const usage = sharedPromptUsage(generation.prompts, await prefix.countTokens())
    return { ...usage, completionTokens: generation.computedTokens() }
  }

  /** @param own the part of the view's prompt after the shared prefix. */
  async #search(question: FindQuestion, view: View, own: SharedPrompt, prefix: MeasuredPrompt): Promise<PlaceSearch> {
    const { model } = this.#call
    const { param, type: kind } = question
    const sought = plainName(question.instructions)
    const dialect = dialectOf(model.card)
    const scene = sceneOf(view.messages, this.#media, view)
    const asked = kind === 'clip' ? sought : dialect.detection.question(kind, [sought])
    const suffix = [...own.prefix, ...own.suffix(untrusted(asked))]
    const constraint =
      kind === 'clip'
        ? tagsConstraint('clip', dialect, scene)
        : ({ type: 'regex', pattern: dialect.detection.pattern(kind, [sought], scene), advisory: true } as const)
    const spec = new ReplySpec({ bound: { ...constraint, param: nameOf(param)! } }, model)
    const fit = this.#request.calibrated ? model.card.detection : undefined
    let rating: PlaceRating | null = null
    if (fit !== undefined && kind !== 'clip') {
      const form = dialect.detection.form(kind, scene)
      rating = { form, confidence: (place, evidence) => ratePlace(place, evidence, fit) }
    }
    const rated = { ...AS_MANY_AS_FIT, topLogProbs: rating === null ? 0 : ALTERNATIVES }
    const branch = await branchOf({ param, prefix, suffix, spec, asked: rated }, this.#call)
    const [reply, createReader] = [spec.createReader(), () => dialect.reader(scene)]
    return new PlaceSearch({ kind, branch, reply, createReader, assets: view.assets, rating })
  }

  /** Builds the beginning of all questions. They continue the last turn if it is the user's. */
  async #sharedPrompt(
    input: readonly PlacedMessage[],
    asked: Pick<PromptSource, 'instruction' | 'annotated'> = {},
  ): Promise<SharedPrompt> {
    const last = input.at(-1)
    const continues = last?.message.role === 'user'
    const opening = continues ? contentOf(last, this.#media) : []
    const messages = continues ? input.slice(0, -1) : input
    const source = { param: 'input', messages, media: this.#media, ...asked }
    const { prefix, suffix } = await buildSharedPrompt(source, this.#call.style, opening)
    // A question after a text begins a new paragraph.
    const gap = opening.at(-1)?.type === 'text' ? untrusted('\n\n') : []
    return { prefix, suffix: (question) => suffix([...gap, ...question]) }
  }
}

/** Picks the answer from several pictures: the most confident place, or that none of them has one. */
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
