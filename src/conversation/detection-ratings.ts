import type { Leaf } from '../grounding/annotation.ts'
import type { AnswerForm } from '../grounding/answer-form.ts'
import type { DetectionKind, Scene } from '../grounding/dialect.ts'
import type { PromptPart } from '../inference/contract/parts.ts'
import { ApiError, invalidRequest } from '../lib/errors/errors.ts'
import { branchOf, type Call } from './call/call.ts'
import { named } from './call/capability-checks.ts'
import { placeQuestion } from './detecting/place-question.ts'
import { type RatedList, rateList } from './detecting/rated-list.ts'
import { type DetectionSearch, type FurtherObject, same } from './detecting/search.ts'
import { untrusted } from './prompt/placeholders.ts'
import type { SharedPrompt } from './prompt/prompt.ts'
import { AS_MANY_AS_FIT, MeasuredPrompt, outputBudget } from './prompt/token-budget.ts'
import { followSearches } from './reply/annotation-search.ts'
import { dialectOf } from './reply/grounding.ts'
import { ReplySpec } from './reply/reply-spec.ts'
import type { ConfidenceRequest } from './request/detect-request.ts'

/** The number of alternatives for each token. vLLM returns no more unless it was started with a higher limit. */
export const ALTERNATIVES = 20
/** Reading a reply takes room for one token after the prompt. */
const ROOM_TO_READ = { ...AS_MANY_AS_FIT, maxTokens: 1 }
/** A list with a lower probability of continuing is almost always complete, and one more object would be wrong. */
const LEAST_MORE = 0.01
const CONFIDENCE = ['config', 'confidence']

/** The searches of one picture, and how their questions were asked. */
export interface Searched {
  readonly searches: readonly DetectionSearch[]
  readonly kind: DetectionKind
  readonly scene: Scene
  /** The parameter that errors about the searches name. */
  readonly param: string
  /** The prompt before the questions, which ends with the image. */
  readonly prefix: MeasuredPrompt
  /**
   * The prompt of a question that is answered in words. With the instruction to detect, the model would write objects.
   */
  readonly plain: SharedPrompt
}

export interface Rating {
  readonly lists: readonly RatedList[]
  /** False if the deadline passed before a thorough rating was ready: then it is like one that is not thorough. */
  readonly isComplete: boolean
}

/** Additional evidence of a thorough rating. */
interface SecondLook {
  readonly further: ReadonlyMap<DetectionSearch, FurtherObject>
  readonly reads: ReadonlyMap<Leaf, number>
}

const NO_SECOND_LOOK: SecondLook = { further: new Map(), reads: new Map() }

/**
 * Rates the objects that the model has found. For a thorough rating, the model must write one more object for each list
 * that may lack some, and is asked about each place.
 * @throws ApiError 400 for an engine that gives no log-probabilities, or cannot score the replies that a rating needs.
 */
export async function rateSearches(
  searched: Searched,
  { isThorough, asksFurther }: ConfidenceRequest,
  call: Call,
): Promise<Rating> {
  const { searches } = searched
  const { model, deadline } = call
  if (!searches.every(({ isRated }) => isRated)) {
    throw invalidRequest(`${named(model)} gives no log-probabilities`, CONFIDENCE)
  }
  let [{ further, reads }, isComplete] = [NO_SECOND_LOOK, true]
  try {
    if (isThorough) ({ further, reads } = await lookAgain(searched, call))
    else if (asksFurther) further = await findFurther(searched, call)
  } catch (error) {
    // The objects count, with the evidence so far.
    if (!deadline.caused(error)) throw error
    isComplete = false
  }
  const lists = searches.map((search) => {
    const evidence = { further: further.get(search) ?? null, reads }
    return rateList(search, formOf(search, searched, call), evidence, model.card.detection ?? null)
  })
  return { lists, isComplete }
}

async function lookAgain(searched: Searched, call: Call): Promise<SecondLook> {
  const further = await findFurther(searched, call)
  const found = [...searched.searches.flatMap(({ leaves }) => leaves), ...[...further.values()].map(({ leaf }) => leaf)]
  const reads = await readPlaces(found, searched, call)
  // Only a read separates the right ones from the others.
  return { further: new Map([...further].filter(([, { leaf }]) => reads.has(leaf))), reads }
}

/** The form of an answer. An engine that enforces no constraint may yield points instead of boxes, or the reverse. */
function formOf({ leaves: [first] }: DetectionSearch, { kind: asked, scene }: Searched, { model }: Call): AnswerForm {
  const kind = first === undefined ? asked : first.kind === 'point' ? 'point' : 'box'
  return dialectOf(model.card).detection.form(kind, scene)
}

/** Makes the model write one more object for each list. Objects that it has written before do not count. */
async function findFurther(searched: Searched, call: Call): Promise<ReadonlyMap<DetectionSearch, FurtherObject>> {
  const { searches, kind, scene, param, prefix } = searched
  const { model, organisation, signal } = call
  const { detection, reader } = dialectOf(model.card)
  const ended = searches.filter((search) => {
    return search.isComplete && (search.evidence(formOf(search, searched, call)).more ?? 1) >= LEAST_MORE
  })
  if (ended.length === 0) return new Map()
  const further: DetectionSearch[] = []
  for (const search of ended) {
    const { text, answer, isEmpty } = search.soFar(formOf(search, searched, call))
    const pattern = detection.another(kind, search.labels, scene, isEmpty)
    const spec = new ReplySpec({ bound: { type: 'regex', pattern, param, advisory: true } }, model)
    const suffix = [...search.branch.suffix, ...untrusted(text)]
    const asked = { ...AS_MANY_AS_FIT, topLogProbs: ALTERNATIVES }
    const branch = await branchOf({ param, prefix, suffix, spec, asked }, call)
    further.push(
      search.continued({ branch, reply: spec.createReader(), createReader: () => reader(scene), begun: answer }),
    )
  }
  // Separate works, so that an engine that has cached the answers continues them.
  const ask = async (search: DetectionSearch) => {
    const work = { organisation, prefix: prefix.parts, branches: [search.branch], whole: true }
    await followSearches([search], await model.engine.generate(work, signal))
  }
  await Promise.all(further.map(ask))
  return new Map(
    further.flatMap((search, index) => {
      const object = search.newest(detection.form(kind, scene))
      const known = ended[index]!
      return object === null || known.leaves.some((leaf) => same(leaf, object.leaf)) ? [] : [[known, object] as const]
    }),
  )
}

/** The probability of each object at its place, from a separate question about it. */
async function readPlaces(
  leaves: readonly Leaf[],
  { scene, prefix: { parts }, plain, param }: Searched,
  call: Call,
): Promise<ReadonlyMap<Leaf, number>> {
  const { model, organisation, signal } = call
  const labelled = leaves.filter(({ mention = '' }) => mention !== '')
  if (labelled.length === 0) return new Map()
  const { detection } = dialectOf(model.card)
  const asked = labelled.map((leaf) => placeQuestion(leaf, model.card.decision, detection.answer([leaf], scene)))
  const image: PromptPart = parts.at(-1)!
  const prefix = new MeasuredPrompt([...plain.prefix, image], call)
  const questions = []
  for (const { text, replies, goesOn } of asked) {
    const [, ...suffix] = plain.suffix([image, ...untrusted(text)])
    await outputBudget([prefix, new MeasuredPrompt(suffix, call)], ROOM_TO_READ, model, param)
    questions.push({ param, suffix, replies, goesOn })
  }
  const reads = new Map<Leaf, number>()
  try {
    const reading = await model.engine.read!({ organisation, prefix: prefix.parts, questions }, signal)
    for await (const answer of reading.answers) {
      if ('error' in answer) throw answer.error
      reads.set(labelled[answer.question]!, asked[answer.question]!.chanceOf(answer.logProbs))
    }
  } catch (error) {
    if (!(error instanceof ApiError) || error.param !== 'model') throw error
    throw invalidRequest(`${named(model)} cannot be asked about places: expected true`, CONFIDENCE)
  }
  return reads
}
